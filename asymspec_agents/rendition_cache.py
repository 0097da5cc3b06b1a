"""Renditions kept outside the process that made them, so that several processes make each but once.

A rendition is a pure function of what its key is made of, so whoever finds one has what it would have made.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Protocol

from .sqlite_table import SQLiteTable
from .store import DEFAULT_MAX_BYTES

__all__ = ["RenditionCache", "SQLiteRenditionCache"]

TTL_S = 7 * 24 * 3600.0
WAIT_S = 0.25  # a rendition may well be made in the time that another process holds the file


class RenditionCache(Protocol):
    """Keeps renditions by key.

    Invariants: thread-safe; `get` gives what was put under that very key, or None; neither ever raises.
    """

    def get(self, key: str) -> bytes | None:
        """What was put under this key of 64 hex digits."""

    def put(self, key: str, rendition: bytes) -> None:
        """Keeps a rendition, perhaps."""


class SQLiteRenditionCache:
    """A `RenditionCache` in one file, readable by its owner only: renditions hold parts of contents.

    Raises ConfigurationError where the file cannot be opened as a database.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        ttl_s: float | None = TTL_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._table = SQLiteTable(path, max_bytes=max_bytes, ttl_s=ttl_s, wait_s=WAIT_S, clock=clock)

    def __repr__(self) -> str:
        return f"SQLiteRenditionCache({self._table.path!r}, {self._table.stats()})"

    def get(self, key: str) -> bytes | None:
        return self._table.find(key)

    def put(self, key: str, rendition: bytes) -> None:
        self._table.write(key, rendition)

    def close(self) -> None:
        """Closes the file; nothing is found or kept from then on."""
        self._table.close()
