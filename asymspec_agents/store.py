"""Originals of compressed contents, kept by sha256 so that a marker's short reference finds them again.

`MemoryStore` is the default and forgets with the process: tool outputs may hold secrets. Who wants to keep
them asks for `sqlite_store.SQLiteStore`.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from .errors import ConfigurationError

__all__ = [
    "ContentStore",
    "MemoryStore",
    "StoreStats",
    "content_hash",
    "short_reference",
]

DEFAULT_MAX_BYTES = 256 * 1024 * 1024
DEFAULT_TTL_S = 24 * 3600.0
_SHORT_DIGITS = 12


def as_bytes(content: str | bytes) -> bytes:
    """The content's stored form: text as UTF-8, lone surrogates included."""
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else bytes(content)


def content_hash(content: str | bytes) -> str:
    """The sha256 (64 hex digits) of bytes, or of a text's UTF-8 form; lone surrogates are told apart."""
    return hashlib.sha256(as_bytes(content)).hexdigest()


def short_reference(content: str | bytes) -> str:
    """`sha256:` and the first 12 hex digits of the content's hash: what markers show and stores look up."""
    return f"sha256:{content_hash(content)[:_SHORT_DIGITS]}"


@dataclass(frozen=True, slots=True)
class StoreStats:
    """What a store holds, and how many contents it dropped (to stay small, by age) or refused (too large)."""

    num_entries: int
    total_bytes: int
    num_evicted: int
    num_expired: int
    num_refused: int


class ContentStore(Protocol):
    """Keeps originals by content hash.

    Invariants: thread-safe; `get(put(x))` is `x` as bytes until it is evicted, expires or is cleared; an
    absent content is None, never an error; repr shows counts, never contents.
    """

    def put(self, content: str | bytes) -> str:
        """Stores the content (again: it becomes the newest, its age starts anew); its full sha256."""

    def get(self, reference: str) -> bytes | None:
        """The bytes stored under a full sha256 or a unique prefix of 12 or more digits, `sha256:` allowed."""

    def get_text(self, reference: str) -> str | None:
        """Like `get`, as text; None also for bytes that are not UTF-8."""

    def __contains__(self, reference: str) -> bool: ...

    def clear(self) -> None:
        """Forgets every content."""

    def stats(self) -> StoreStats: ...


def check_limits(max_bytes: int, ttl_s: float | None) -> None:
    """Raises ConfigurationError for a limit out of its range."""
    if max_bytes <= 0:
        raise ConfigurationError(f"max_bytes={max_bytes}: must be positive")
    if ttl_s is not None and not ttl_s > 0:
        raise ConfigurationError(f"ttl_s={ttl_s}: must be positive, or None to keep contents until evicted")


def digest_prefix(reference: str) -> str | None:
    """The hex digits of a reference, full or shortened, or None where it cannot name a content."""
    digits = reference.removeprefix("sha256:").lower()
    is_hex = all(digit in "0123456789abcdef" for digit in digits)
    return digits if is_hex and _SHORT_DIGITS <= len(digits) <= 64 else None


def as_text(data: bytes | None) -> str | None:
    """Stored bytes as text; None for absent ones and for bytes that are not UTF-8."""
    if data is None:
        return None
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None


class MemoryStore:
    """A `ContentStore` in memory; over `max_bytes` the least recently used contents go first."""

    def __init__(
        self,
        *,
        max_bytes: int = DEFAULT_MAX_BYTES,
        ttl_s: float | None = DEFAULT_TTL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        check_limits(max_bytes, ttl_s)
        self._max_bytes, self._ttl_s, self._clock = max_bytes, ttl_s, clock
        self._lock = threading.Lock()
        self._contents: OrderedDict[str, bytes] = OrderedDict()  # least recently used first
        self._stored_at: OrderedDict[str, float] = OrderedDict()  # oldest first
        self._total_bytes = self._num_evicted = self._num_expired = self._num_refused = 0

    def __repr__(self) -> str:
        return f"MemoryStore({self.stats()})"

    def put(self, content: str | bytes) -> str:
        data = as_bytes(content)
        digest = hashlib.sha256(data).hexdigest()
        with self._lock:
            self._expire()
            if len(data) > self._max_bytes:
                self._num_refused += 1
                return digest
            if digest in self._contents:
                self._drop(digest)
            self._contents[digest] = data
            self._stored_at[digest] = self._clock()
            self._total_bytes += len(data)
            while self._total_bytes > self._max_bytes:
                self._drop(next(iter(self._contents)))
                self._num_evicted += 1
        return digest

    def get(self, reference: str) -> bytes | None:
        with self._lock:
            digest = self._find(reference)
            if digest is None:
                return None
            self._contents.move_to_end(digest)
            return self._contents[digest]

    def get_text(self, reference: str) -> str | None:
        return as_text(self.get(reference))

    def __contains__(self, reference: str) -> bool:
        with self._lock:
            return self._find(reference) is not None

    def clear(self) -> None:
        with self._lock:
            self._contents.clear()
            self._stored_at.clear()
            self._total_bytes = 0

    def stats(self) -> StoreStats:
        with self._lock:
            self._expire()
            counts = (self._num_evicted, self._num_expired, self._num_refused)
            return StoreStats(len(self._contents), self._total_bytes, *counts)

    def _find(self, reference: str) -> str | None:
        self._expire()
        prefix = digest_prefix(reference)
        if prefix is None or prefix in self._contents:
            return prefix
        matches = [digest for digest in self._contents if digest.startswith(prefix)]
        return matches[0] if len(matches) == 1 else None

    def _expire(self) -> None:
        if self._ttl_s is None:
            return
        newest_expired = self._clock() - self._ttl_s
        while self._stored_at:
            digest, stored_at = next(iter(self._stored_at.items()))
            if stored_at > newest_expired:
                return
            self._drop(digest)
            self._num_expired += 1

    def _drop(self, digest: str) -> None:
        self._total_bytes -= len(self._contents.pop(digest))
        del self._stored_at[digest]
