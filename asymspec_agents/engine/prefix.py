"""Prefix reuse between calls: the caches of earlier sequences, found again by their tokens."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigurationError
from .cache import KVCache

__all__ = ["PrefixCache", "PrefixHit", "Wanted", "common_length"]

Tokens = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What one reader is about to read, under which owner, and the room (in positions) it will need."""

    owner: Hashable
    prompt: Sequence[int]
    reserved: int


@dataclass(frozen=True, slots=True)
class PrefixHit:
    """A cache ready to continue from: its first `num_tokens` positions are those of the prompt asked for."""

    cache: KVCache
    num_tokens: int


class PrefixCache:
    """Caches by (owner, token sequence), least recently used dropped first beyond `max_bytes`.

    Invariants: a cache is found only under the owner it was stored with (model and tenant); what `take` hands
    out belongs to the caller alone; a stored sequence stays available at its full length until it is dropped
    or handed to a caller whose prompt continues it.
    """

    def __init__(self, max_bytes: int) -> None:
        if max_bytes < 0:
            raise ConfigurationError(f"prefix_cache_bytes={max_bytes} must not be negative")
        self.max_bytes = max_bytes
        self._entries: OrderedDict[int, tuple[Hashable, Tokens, KVCache]] = OrderedDict()
        self._serial = 0

    @property
    def num_bytes(self) -> int:
        """Bytes held by all stored caches."""
        return sum(cache.num_bytes for _, _, cache in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def take(self, readers: Sequence[Wanted]) -> list[PrefixHit]:
        """For each reader of one call the longest stored prefix of its prompt, the last token aside.

        That token is always read anew. A cache handed out, empty where nothing fits, leaves room for what was
        reserved when it grows. Readers of one call may continue the same stored sequence.
        """
        found = [self._longest(reader) for reader in readers]
        whole = {
            key: index
            for index, (key, length) in enumerate(found)
            if key is not None and length == len(self._entries[key][1])
        }
        hits = []
        for index, (reader, (key, length)) in enumerate(zip(readers, found, strict=True)):
            stored = KVCache() if key is None else self._entries[key][2]
            if key is not None:
                self._entries.move_to_end(key)
            if key is None or whole.get(key) == index:  # nothing to share, or handed over without a copy
                stored.reserve(reader.reserved)
                hits.append(PrefixHit(stored, length))
            else:
                hits.append(PrefixHit(stored.copy_prefix(length, reader.reserved), length))
        for key in whole:
            del self._entries[key]
        return hits

    def _longest(self, reader: Wanted) -> tuple[int | None, int]:
        """The entry with the longest common prefix, and that prefix's length."""
        wanted = np.asarray(reader.prompt, dtype=np.int64)[:-1]
        best_key, best_length = None, 0
        for key, (owner, tokens, _) in self._entries.items():
            length = _common_length(tokens, wanted) if owner == reader.owner else 0
            if length > best_length:
                best_key, best_length = key, length
        return best_key, best_length

    def put(self, owner: Hashable, tokens: Sequence[int], cache: KVCache) -> None:
        """Stores a cache that holds exactly `tokens`; drops the oldest where room is short."""
        if cache.length != len(tokens):
            raise ValueError(f"the cache holds {cache.length} positions for {len(tokens)} tokens")
        if not len(tokens) or cache.num_bytes > self.max_bytes:
            return
        stored = np.asarray(tokens, dtype=np.int64)
        for key, (entry_owner, other, _) in list(self._entries.items()):
            common = _common_length(other, stored) if entry_owner == owner else 0
            if common == len(stored):  # an entry holds all of it and maybe more
                self._entries.move_to_end(key)
                return
            if common == len(other) and entry_owner == owner:
                del self._entries[key]  # a prefix of the new one serves nothing more
        self._entries[self._serial] = (owner, stored, cache)
        self._serial += 1
        while self.num_bytes > self.max_bytes:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Drops everything."""
        self._entries.clear()


def common_length(first: Sequence[int], second: Sequence[int]) -> int:
    """The number of tokens with which both sequences begin."""
    return _common_length(np.asarray(first, dtype=np.int64), np.asarray(second, dtype=np.int64))


def _common_length(first: Tokens, second: Tokens) -> int:
    n = min(len(first), len(second))
    differs = np.flatnonzero(first[:n] != second[:n])
    return int(differs[0]) if differs.size else n
