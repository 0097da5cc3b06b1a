"""Where, when and with what a figure was made."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import asymspec_agents

__all__ = ["provenance"]


def provenance(*packages: str, **facts: Any) -> dict[str, Any]:
    """Machine, date, revision and the versions of `packages` (None where one is not installed), with further
    facts such as n."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "revision": _revision(),
        "machine": platform.machine(),
        "cpu": _cpu(),
        "num_cpus": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "asymspec_agents": asymspec_agents.__version__,
        **{package: _version(package) for package in packages},
        **facts,
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> str:
    """The processor's name and what matters of it here: whether bfloat16 is fast."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return platform.processor()
    facts = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    known = [name for name in ("avx512_bf16", "amx_bf16") if name in facts.get("flags", "").split()]
    return " ".join([facts.get("model name", platform.processor()), *known])


def _revision() -> str | None:
    """The commit, marked where files differ from it; None outside a repository."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
