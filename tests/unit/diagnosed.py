"""A made-up installation and what `asymspec doctor` finds in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from asymspec_agents.diagnosis.finding import Finding, run_checks
from asymspec_agents.diagnosis.installation import Installation
from asymspec_agents.diagnosis.installation_checks import DEFAULT_PAIR_CHECKS, INSTALLATION_CHECKS
from asymspec_agents.diagnosis.probe import Probe
from asymspec_agents.diagnosis.requirements import read_requirements
from asymspec_agents.weights import PRESETS, CachedModel

# As hatchling writes them: sorted, and what an included extra brings repeated under the one that includes it.
FLATTENED = read_requirements(
    [
        "pydantic<3,>=2.7",
        "bm25s<0.4,>=0.3; extra == 'all'",
        "torch<2.15,>=2.6; extra == 'all'",
        "filelock<5,>=3.16; extra == 'engine'",
        "torch<2.15,>=2.6; extra == 'engine'",
        "filelock<5,>=3.16; extra == 'server'",
        "starlette<2,>=0.46; extra == 'server'",
        "torch<2.15,>=2.6; extra == 'server'",
        "numpy<3,>=1.26; extra == 'vision'",
        "rapidocr<4,>=3.10; extra == 'vision'",
        "mkdocs-material<10,>=9.8; extra == 'docs'",
    ]
)
REQUIREMENTS = read_requirements(
    [
        "pydantic<3,>=2.7",
        "torch<2.15,>=2.6; extra == 'engine'",
        "gguf<1,>=0.17; extra == 'engine'",
        "asymspec-agents[engine]; extra == 'server'",
        "starlette<2,>=0.46; extra == 'server'",
        "smolagents<2,>=1.26; extra == 'smolagents'",
        "pytest>=8.3; extra == 'dev'",
    ]
)
VERSIONS = {"pydantic": "2.14.0", "torch": "2.13.0+cpu", "gguf": "0.17", "pytest": "1.0"}
COMPUTE = {"float32_s": 0.004, "bfloat16_s": 0.002, "threads": 2}
GPU = {"build": None, "has_driver": False}
FACTS: dict[str, Any] = {"pydantic": {}, "torch": {}, "gguf": {}, "compute": COMPUTE, "gpu": GPU}


def models(state: str = "cached") -> tuple[CachedModel, ...]:
    return tuple(CachedModel(preset, Path(name), state, 1) for name, preset in PRESETS.items())  # type: ignore[arg-type]


def diagnose(tmp_path: Path, **changes: Any) -> dict[str, Finding]:
    facts: dict[str, Any] = {
        "python": (3, 12, 1),
        "requires_python": ">=3.10",
        "version": "1.2.3",
        "metadata_version": "1.2.3",
        "requirements": REQUIREMENTS,
        "versions": VERSIONS,
        "cache_dir": tmp_path,
        "models": models(),
        "free_disk_bytes": lambda folder: 10**12,
        "available_bytes": 10**11,
        "cores": 2,
        "try_modules": lambda modules: Probe(FACTS),
        **changes,
    }
    findings = list(run_checks((*INSTALLATION_CHECKS, *DEFAULT_PAIR_CHECKS), Installation(**facts), 30))
    by_name = {finding.name: finding for finding in findings}
    assert len(by_name) == len(findings)
    for finding in findings:
        assert (finding.fix is not None) == (finding.status in ("warn", "FAIL")), finding
    return by_name
