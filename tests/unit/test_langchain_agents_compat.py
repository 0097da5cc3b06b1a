"""The middleware refuses versions of langchain it was not written for, and says what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("langchain")

from asymspec_agents.errors import ConfigurationError
from langchain_asymspec._compat_agents import check_version


@pytest.mark.parametrize("version", ["1.4.10", "1.4.11", "1.5.0", "1.5.2rc1", "1.100"])
def test_versions_in_range_pass(version: str) -> None:
    check_version(version)


@pytest.mark.parametrize("version", ["1.4.9", "1.0.0", "0.3.27", "2.0.0", "10.1", "main", ""])
def test_other_versions_are_refused_by_name_value_and_limit(version: str) -> None:
    with pytest.raises(ConfigurationError, match=r"langchain=.*>=1\.4\.10,<2"):
        check_version(version)


def asked_for(folder: Path, before: str, name: str) -> str:
    """What comes of importing a name in a fresh process with `folder` first on its path."""
    program = (
        f"import sys; sys.path.insert(0, {str(folder)!r}); sys.path[1:1] = {sys.path!r}\n{before}\n"
        f"try:\n    from langchain_asymspec import {name}\n"
        "except Exception as error:\n    print(type(error).__name__, error)\nelse:\n    print('imported')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_only_the_middleware_needs_langchain(tmp_path: Path) -> None:
    missing = "sys.modules['langchain'] = sys.modules['langgraph'] = None"
    told = asked_for(tmp_path, missing, "AsymSpecContextMiddleware")
    assert told.startswith("MissingDependencyError langchain is not installed")
    assert told.endswith('pip install "asymspec-agents[langchain-agents]"')
    assert asked_for(tmp_path, missing, "AsymSpecContextEdit, AsymSpecSummarizer") == "imported"


def test_an_old_langchain_is_refused_before_anything_of_it_is_used(tmp_path: Path) -> None:
    (tmp_path / "langchain").mkdir()
    (tmp_path / "langchain" / "__init__.py").write_text("__version__ = '0.3.27'\n")
    told = asked_for(tmp_path, "", "AsymSpecContextMiddleware")
    assert told.startswith("ConfigurationError langchain='0.3.27' is not supported")
