"""Settings taken from the environment, read in this module only and only when asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Settings", "environment", "from_env"]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user's environment may set.

    `cache_dir` (ASYMSPEC_CACHE): where converted models are kept. `data_dir` (ASYMSPEC_DATA): a folder of
    records for evaluation that have no official release to fetch. `api_key` (ASYMSPEC_API_KEY): the key that
    `asymspec serve` and `asymspec gateway` ask for, and that commands send to a server. `upstream_api_key`
    (ASYMSPEC_UPSTREAM_API_KEY): the key that `asymspec gateway` sends to its upstream. `no_color` (NO_COLOR, https://no-color.org,
    or a terminal that is `dumb`): output without colours.
    """

    cache_dir: Path | None = None
    data_dir: Path | None = None
    api_key: str | None = field(default=None, repr=False)
    upstream_api_key: str | None = field(default=None, repr=False)
    no_color: bool = False


def from_env(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings in `environ`; unset and empty variables leave the default."""
    cache_dir = environ.get("ASYMSPEC_CACHE")
    data_dir = environ.get("ASYMSPEC_DATA")
    return Settings(
        cache_dir=Path(cache_dir).expanduser().absolute() if cache_dir else None,
        data_dir=Path(data_dir).expanduser().absolute() if data_dir else None,
        api_key=environ.get("ASYMSPEC_API_KEY") or None,
        upstream_api_key=environ.get("ASYMSPEC_UPSTREAM_API_KEY") or None,
        no_color=bool(environ.get("NO_COLOR")) or environ.get("TERM") == "dumb",
    )


def environment() -> dict[str, str]:
    """A copy of the whole environment, for a process that is to be started with a changed one."""
    return dict(os.environ)
