"""The checks of an installation, from Python to the models' memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..weights import DEFAULT_PAIR, PRESETS
from .finding import Check, Finding
from .installation import DEVELOPERS, DISTRIBUTION, INTEGRATIONS, Installation, module_of
from .requirements import Requirement, fits

__all__ = ["DEFAULT_PAIR_CHECKS", "INSTALLATION_CHECKS", "MAIN_PACKAGES"]

GB = 1e9
PAIR = (DEFAULT_PAIR.verifier, DEFAULT_PAIR.drafter)
UNTOLD = ("all", *DEVELOPERS)
"""Extras without a line of their own: the sum of others, and what users don't need."""
MAIN_PACKAGES = {
    "engine": ("torch",),
    "compress": ("bm25s",),
    "llmlingua": ("llmlingua",),
    "documents": ("pypdfium2",),
    "images": ("pillow",),
    "vision": ("rapidocr",),
    "json": ("json-repair",),
    "server": ("torch", "starlette"),
    "gateway": ("prometheus-client",),
    "smolagents": ("smolagents",),
    "langchain": ("langchain-core",),
    "langchain-agents": ("langchain",),
}
"""What tells that somebody installed an extra; of others, the first package that the metadata names.

Metadata may list an extra's packages in any order, those of the extras it includes among them.
"""
SLOW_BFLOAT16 = 1.5
"""From how many times float32's seconds on the other format is worth its memory."""
OVERHEAD_BYTES = 1_500_000_000
"""Beside the weights: torch itself, caches of a few thousand tokens, activations."""


def _python(here: Installation) -> Iterator[Finding]:
    wanted = here.requires_python or ">=3.10"
    if fits(".".join(map(str, here.python)), wanted):
        yield Finding("python", "ok", here.python_text)
    else:
        fix = "make a virtual environment with a newer Python, such as: python3.12 -m venv .venv"
        yield Finding("python", "FAIL", f"{here.python_text}; needed: {wanted}", fix)


def _package(here: Installation) -> Iterator[Finding]:
    if here.metadata_version is None:
        text = f"{here.version}, run from source that is not installed: packages can't be compared with it"
        yield Finding("package", "warn", text, "in the source folder: pip install -e .")
    elif here.metadata_version != here.version:
        text = f"the code is {here.version}, the installation's metadata {here.metadata_version}"
        fix = f"pip install --force-reinstall --no-deps {DISTRIBUTION} (from source: pip install -e .)"
        yield Finding("package", "warn", text, fix)
    else:
        yield Finding("package", "ok", f"{DISTRIBUTION} {here.version}")


def _packages(here: Installation) -> Iterator[Finding]:
    """The base and each extra: what is there, missing, out of range."""
    own = [requirement for requirement in here.requirements if requirement.name != DISTRIBUTION]
    extras = {requirement.extra: None for requirement in own if requirement.extra not in UNTOLD}
    for extra in extras:
        direct = [requirement for requirement in own if requirement.extra == extra]
        yield _extra(here, extra, direct, MAIN_PACKAGES.get(str(extra), (direct[0].name,)))


def _extra(
    here: Installation, extra: str | None, direct: Sequence[Requirement], main: Sequence[str]
) -> Finding:
    name = f"extra {extra}" if extra else "base packages"
    # Quoted, as shells take brackets and < for something else.
    fix = f'pip install --upgrade "{DISTRIBUTION}{f"[{extra}]" if extra else ""}"'
    missing = [requirement.name for requirement in direct if not here.has(requirement.name)]
    # Some of its packages may be there for others' sake: an extra counts as wanted when its main ones are.
    if extra is not None and not all(map(here.has, main)):
        return Finding(name, "info", f"not installed; if you want it: {fix}")
    wrong = [
        f"{requirement.name} {here.versions[requirement.name]} (needed: {requirement})"
        for requirement in direct
        if here.has(requirement.name) and not fits(here.versions[requirement.name], requirement.range)
    ]
    if missing or wrong:
        problems = [("missing", missing), ("out of range", wrong)]
        text = "; ".join(f"{problem}: {', '.join(found)}" for problem, found in problems if found)
        return Finding(name, "FAIL", text, fix)
    there = ", ".join(f"{requirement.name} {here.versions[requirement.name]}" for requirement in direct)
    return Finding(name, "ok", there)


def _imports(here: Installation) -> Iterator[Finding]:
    """Whether what is installed can be imported and computes rightly."""
    probe = here.probe
    for module, error in probe.errors.items():
        yield Finding(module, "FAIL", error, _reinstall(here, module))
    if probe.culprit is not None:
        text = f"trying it in a new process {probe.ending}"
        yield Finding(probe.culprit, "FAIL", text, _reinstall(here, probe.culprit))
    if probe.unfinished is not None:
        text = f"trying {probe.unfinished} was not done when the time was over"
        yield Finding("imports", "FAIL", text, "give it more time: asymspec doctor --timeout 300")
    elif not probe.errors and probe.culprit is None:
        num_modules = len(probe.facts.keys() - {"compute", "gpu"})
        yield Finding("imports", "ok", f"all {num_modules} packages that are there can be imported")


def _reinstall(here: Installation, step: str) -> str:
    module = {"compute": "torch", "gpu": "torch", **INTEGRATIONS}.get(step, step)
    found = next((need for need in here.requirements if module_of(need.name) == module), None)
    if found is None:
        return f"pip install --force-reinstall {DISTRIBUTION}"
    return f'pip install --force-reinstall "{found}"'


def _torch(here: Installation) -> Iterator[Finding]:
    """What torch computes with: threads, number formats."""
    facts = here.probe.facts.get("compute")
    if facts is None:
        return
    threads, slowdown = facts["threads"], facts["bfloat16_s"] / max(facts["float32_s"], 1e-9)
    text = f"{threads} threads on {here.cores} cores"
    if threads > here.cores:
        fix = f"export OMP_NUM_THREADS={here.cores}"
        yield Finding("threads", "warn", f"{text}: threads that wait for a core slow all others down", fix)
    else:
        yield Finding("threads", "ok", text)
    text = f"bfloat16 takes {slowdown:.2f} times float32's time on this CPU"
    if slowdown > SLOW_BFLOAT16 and "name" not in here.probe.facts.get("gpu", {}):
        fix = 'asymspec serve --dtype float32, LocalBackend.load(dtype="float32"): twice the memory'
        yield Finding("dtype", "warn", text, fix)
    else:
        yield Finding("dtype", "ok", text)


def _gpu(here: Installation) -> Iterator[Finding]:
    facts = here.probe.facts.get("gpu")
    if facts is None:
        return
    if "name" in facts:
        text = f"{facts['name']}, {facts['free_bytes'] / GB:.1f} GB free, CUDA {facts['build']}"
        yield Finding("gpu", "ok", text)
    elif facts["has_driver"]:
        why = "this torch is built without CUDA" if facts["build"] is None else "torch can't use it"
        fix = "install the torch build for your CUDA version: https://pytorch.org/get-started/locally"
        if facts["build"] is not None:
            fix = f"nvidia-smi shows the driver's CUDA version: it must be {facts['build']} or newer"
        yield Finding("gpu", "warn", f"there is an NVIDIA driver, but {why}", fix)
    else:
        yield Finding("gpu", "info", "none; models run on the CPU")


def _cache(here: Installation) -> Iterator[Finding]:
    """Whether models can be stored."""
    folder = here.cache_dir
    if folder is None:
        return
    fix = "export ASYMSPEC_CACHE=/a/folder/you/can/write"
    there = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    problem = _write_problem(there)
    if problem:
        yield Finding("cache", "FAIL", f"{folder} can't be written: {problem}", fix)
        return
    free_bytes = here.free_disk_bytes(there)
    # Of a preset, the fetched file and its conversion lie side by side for a while.
    needed = sum(
        model.preset.num_bytes + model.preset.converted_bytes
        for model in here.models
        if model.preset.name in PAIR and model.state != "cached"
    )
    text = f"{folder}{'' if there == folder else ' (will be made)'}, {free_bytes / GB:.1f} GB free"
    if free_bytes < needed:
        text += f"; the default models need {needed / GB:.1f} GB while they are converted"
        yield Finding("cache", "warn", text, f"free some space, or {fix}")
    else:
        yield Finding("cache", "ok", text)


def _write_problem(there: Path) -> str:
    if not there.is_dir():
        return f"{there} is no folder"
    try:
        with tempfile.TemporaryFile(dir=there):
            return ""
    except OSError as error:
        return error.strerror or type(error).__name__


def _models(here: Installation) -> Iterator[Finding]:
    """Whether the default pair is there."""
    states = {model.preset.name: model.state for model in here.models}
    if not states or not here.has("torch"):
        return
    missing = [name for name in PAIR if states[name] != "cached"]
    if not missing:
        yield Finding("models", "ok", f"the default pair is cached: {' and '.join(PAIR)}")
    else:
        size = sum(PRESETS[name].num_bytes for name in missing) / GB
        half = [name for name in missing if states[name] == "partial"]
        text = f"not cached: {', '.join(missing)} ({size:.1f} GB to fetch, at the latest at the first use)"
        text += f"; unfinished: {', '.join(half)}" if half else ""
        yield Finding("models", "warn", text, f"asymspec models pull {' '.join(missing)}")


def _memory(here: Installation) -> Iterator[Finding]:
    """Whether the default pair fits."""
    if not here.has("torch"):
        return
    needed = sum(PRESETS[name].converted_bytes for name in PAIR) + OVERHEAD_BYTES
    if here.available_bytes is None:
        yield Finding("memory", "info", f"unknown here; the default pair needs about {needed / GB:.1f} GB")
        return
    text = f"{here.available_bytes / GB:.1f} GB available; the default pair needs about {needed / GB:.1f} GB"
    if here.available_bytes < needed:
        fix = "close other programs, or take smaller models: asymspec serve --verifier … --drafter …"
        yield Finding("memory", "warn", text, fix)
    else:
        yield Finding("memory", "ok", text)


INSTALLATION_CHECKS: tuple[Check[Installation], ...] = (
    Check("python", _python),
    Check("package", _package),
    Check("packages", _packages),
    Check("cache", _cache),
    Check("imports", _imports),
    Check("torch", _torch),
    Check("gpu", _gpu),
)
"""What is looked at first costs least; the imports take seconds."""
DEFAULT_PAIR_CHECKS: tuple[Check[Installation], ...] = (Check("models", _models), Check("memory", _memory))
"""Of the pair that commands take unless told otherwise."""
