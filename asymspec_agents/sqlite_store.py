"""A content store in one SQLite file, for originals that shall outlive the process."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable

from .sqlite_table import SQLiteTable
from .store import DEFAULT_MAX_BYTES, DEFAULT_TTL_S, StoreStats, as_bytes, as_text, digest_prefix

__all__ = ["SQLiteStore"]


class SQLiteStore:
    """A `ContentStore` in one file (readable by its owner only), shared by processes and kept between them.

    A failing disk or a locked file never raises out of `put` and `get`: it counts as refused or absent.
    Raises ConfigurationError where the file cannot be opened as a database.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        ttl_s: float | None = DEFAULT_TTL_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._table = SQLiteTable(path, max_bytes=max_bytes, ttl_s=ttl_s, clock=clock)

    def __repr__(self) -> str:
        return f"SQLiteStore({self._table.path!r}, {self.stats()})"

    def put(self, content: str | bytes) -> str:
        data = as_bytes(content)
        digest = hashlib.sha256(data).hexdigest()
        self._table.write(digest, data)
        return digest

    def get(self, reference: str) -> bytes | None:
        prefix = digest_prefix(reference)
        return None if prefix is None else self._table.find(prefix)

    def get_text(self, reference: str) -> str | None:
        return as_text(self.get(reference))

    def __contains__(self, reference: str) -> bool:
        return self.get(reference) is not None

    def clear(self) -> None:
        self._table.clear()

    def stats(self) -> StoreStats:
        return self._table.stats()

    def close(self) -> None:
        """Closes the file; the store is empty and refuses contents from then on."""
        self._table.close()
