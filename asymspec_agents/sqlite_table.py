"""Bytes by key in one SQLite file that processes share: bounded in size and age, never failing a caller."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable

from .errors import ConfigurationError
from .store import StoreStats, check_limits

__all__ = ["SQLiteTable"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS contents
    (digest TEXT PRIMARY KEY, data BLOB, num_bytes INTEGER, stored_at REAL, used INTEGER) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS by_use ON contents (used, num_bytes);
CREATE INDEX IF NOT EXISTS by_age ON contents (stored_at);
"""
_NEXT_USE = "(SELECT COALESCE(MAX(used), 0) + 1 FROM contents)"


class SQLiteTable:
    """A table in a file readable by its owner only; over `max_bytes` the least recently used go first.

    A failing disk or a locked file never raises out of `write` and `find`: it counts as refused or absent.
    `wait_s` bounds the waiting for another process. Raises ConfigurationError where the file cannot be opened
    as a database.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int,
        ttl_s: float | None,
        wait_s: float = 5.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_limits(max_bytes, ttl_s)
        self.path, self._max_bytes, self._ttl_s, self._clock = os.fspath(path), max_bytes, ttl_s, clock
        self._lock = threading.RLock()
        self._num_evicted = self._num_expired = self._num_refused = 0
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            self._database = sqlite3.connect(self.path, timeout=wait_s, check_same_thread=False)
            self._database.execute("PRAGMA secure_delete = ON")
            self._database.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(f"path={self.path!r}: cannot be opened as a store ({error})") from error

    def write(self, key: str, data: bytes) -> None:
        """Stores the data (again: it becomes the newest, its age starts anew)."""
        with self._lock:
            if len(data) > self._max_bytes or not self._write(key, data):
                self._num_refused += 1

    def find(self, prefix: str) -> bytes | None:
        """The data under the only key that begins with `prefix`, which must be hex digits."""
        try:
            with self._lock, self._database as database:
                self._expire()
                rows = database.execute(
                    "SELECT digest, data FROM contents WHERE digest >= ? AND digest <= ? LIMIT 2",
                    (prefix, prefix + "g"),
                ).fetchall()
                if len(rows) != 1:
                    return None
                database.execute(f"UPDATE contents SET used = {_NEXT_USE} WHERE digest = ?", (rows[0][0],))
                return bytes(rows[0][1])
        except sqlite3.Error:
            return None

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock, self._database as database:
            database.execute("DELETE FROM contents")

    def stats(self) -> StoreStats:
        """What it holds, and what it dropped or refused."""
        with self._lock, self._database as database:
            self._expire()
            num_entries, total_bytes = database.execute(
                "SELECT COUNT(*), COALESCE(SUM(num_bytes), 0) FROM contents"
            ).fetchone()
        return StoreStats(num_entries, total_bytes, self._num_evicted, self._num_expired, self._num_refused)

    def close(self) -> None:
        """Closes the file; the table is empty and refuses everything from then on."""
        with self._lock:
            self._database.close()

    def _write(self, key: str, data: bytes) -> bool:
        try:
            with self._database as database:
                self._expire()
                database.execute(
                    f"INSERT OR REPLACE INTO contents VALUES (?, ?, ?, ?, {_NEXT_USE})",
                    (key, data, len(data), self._clock()),
                )
                self._evict()
        except sqlite3.Error:
            return False
        return True

    def _expire(self) -> None:
        if self._ttl_s is not None:
            cursor = self._database.execute(
                "DELETE FROM contents WHERE stored_at <= ?", (self._clock() - self._ttl_s,)
            )
            self._num_expired += cursor.rowcount

    def _evict(self) -> None:
        (total_bytes,) = self._database.execute("SELECT SUM(num_bytes) FROM contents").fetchone()
        while total_bytes > self._max_bytes:
            key, num_bytes = self._database.execute(
                "SELECT digest, num_bytes FROM contents ORDER BY used LIMIT 1"
            ).fetchone()
            self._database.execute("DELETE FROM contents WHERE digest = ?", (key,))
            total_bytes -= num_bytes
            self._num_evicted += 1
