"""What the machine has: processor cores and memory, as far as this process may use them."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_bytes", "usable_cores"]

_CGROUP = Path("/sys/fs/cgroup")


def usable_cores(cgroup: Path = _CGROUP) -> int:
    """Cores this process may use, rounded up: a container's share where it is smaller than the machine."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota, _, period = _read(cgroup / "cpu.max").partition(" ")
    if quota.isdigit() and period.strip().isdigit() and int(period):
        cores = min(cores, max(1, -(-int(quota) // int(period))))
    return cores


def available_bytes(meminfo: Path = Path("/proc/meminfo"), cgroup: Path = _CGROUP) -> int | None:
    """Memory that new work can have, a container's limit included; None where the system doesn't say."""
    free = [
        int(line.split()[1]) * 1024
        for line in _read(meminfo).splitlines()
        if line.startswith("MemAvailable:") and line.split()[1].isdigit()
    ]
    limit, used = _read(cgroup / "memory.max"), _read(cgroup / "memory.current")
    if limit.isdigit() and used.isdigit():
        free.append(max(0, int(limit) - int(used)))
    return min(free, default=None)


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):  # another system, or no container
        return ""
