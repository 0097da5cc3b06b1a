"""The environment variables of a vLLM server with this plugin."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from .distribution import cpu_libraries, is_cpu_build

__all__ = ["PLUGIN_NAME", "allowed_plugins", "preloaded", "server_environment"]

PLUGIN_NAME = "asymspec"

# Groups whose plugins vLLM loads where no list is given; those of endpoints it loads by name only.
OPEN_GROUPS = (
    "vllm.general_plugins",
    "vllm.io_processor_plugins",
    "vllm.platform_plugins",
    "vllm.stat_logger_plugins",
)


def server_environment(given: Mapping[str, str]) -> dict[str, str]:
    """`given`, with this plugin allowed, and on CPU the libraries preloaded that are there."""
    environment = {**given, "VLLM_PLUGINS": allowed_plugins(given.get("VLLM_PLUGINS"), _installed())}
    if sys.platform == "linux" and is_cpu_build():
        libraries = preloaded(given.get("LD_PRELOAD", ""), cpu_libraries(Path(sys.prefix)))
        if libraries:
            environment["LD_PRELOAD"] = libraries
    return environment


def allowed_plugins(given: str | None, installed: Iterable[str]) -> str:
    """The value of VLLM_PLUGINS: what was given, or else what vLLM would load without a list, and ours."""
    names = installed if given is None else given.split(",")
    return ",".join(dict.fromkeys([*(name for name in names if name), PLUGIN_NAME]))


def preloaded(given: str, libraries: Iterable[Path]) -> str:
    """The value of LD_PRELOAD: what was given, and of the libraries those that are in it in no version."""
    is_openmp_given = any(name in given for name in ("libomp", "libgomp", "libiomp"))
    added = []
    for library in libraries:
        kind = library.name.partition(".")[0].rstrip("0123456789")
        is_given = is_openmp_given if kind == "libiomp" else kind.partition("_")[0] in given
        if not is_given:
            added.append(os.fspath(library))
    return ":".join([*added, *([given] if given else [])])


def _installed() -> list[str]:
    points = (importlib.metadata.entry_points(group=group) for group in OPEN_GROUPS)
    return sorted({point.name for group in points for point in group})
