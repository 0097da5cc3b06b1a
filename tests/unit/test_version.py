"""The version is one: package, changelog and installed metadata agree."""

from __future__ import annotations

import re
from importlib import metadata

import pytest

from asymspec_agents import __version__
from tests.architecture import ROOT


def test_the_changelog_ends_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## \[(.+?)\]", changelog, flags=re.MULTILINE)
    released = [version for version in versions if version != "Unreleased"]
    assert released[0] == __version__


def test_the_version_is_a_plain_release_number() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", __version__)


def test_installed_metadata_agrees() -> None:
    try:
        installed = metadata.version("asymspec-agents")
    except metadata.PackageNotFoundError:
        pytest.skip("asymspec-agents runs from its source tree here, it is not installed")
    assert installed == __version__
