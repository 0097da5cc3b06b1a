"""Settings taken from the environment, read in this module only and only when asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

__all__ = ["Settings", "from_env"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user's environment may set. `cache_dir` (ASYMSPEC_CACHE): where converted models are kept."""

    cache_dir: Path | None = None


def from_env(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in `environ`; unset and empty variables leave the default."""
    cache_dir = environ.get("ASYMSPEC_CACHE")
    return Settings(cache_dir=Path(cache_dir).expanduser().absolute() if cache_dir else None)
