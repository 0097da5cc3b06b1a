"""Prefix reuse between calls: the caches of earlier sequences, found again by their tokens."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..errors import ConfigurationError
from .cache import KVCache

__all__ = ["PrefixCache", "PrefixHit"]

Tokens = NDArray[np.int64]


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

    def take(self, owner: Hashable, prompt: Sequence[int], reserved: int) -> PrefixHit:
        """The longest stored prefix of `prompt`, its last token aside, which is always read anew.

        The cache handed out, empty where nothing fits, leaves room for `reserved` positions when it grows.
        """
        wanted = np.asarray(prompt, dtype=np.int64)[:-1]
        best_key, best_length = None, 0
        for key, (entry_owner, tokens, _) in self._entries.items():
            length = _common_length(tokens, wanted) if entry_owner == owner else 0
            if length > best_length:
                best_key, best_length = key, length
        cache = KVCache()
        if best_key is not None:
            _, tokens, cache = self._entries[best_key]
            if best_length == len(tokens):
                del self._entries[best_key]
            else:
                self._entries.move_to_end(best_key)
                return PrefixHit(cache.copy_prefix(best_length, reserved), best_length)
        cache.reserve(reserved)
        return PrefixHit(cache, best_length)

    def put(self, owner: Hashable, tokens: Sequence[int], cache: KVCache) -> None:
        """Stores a cache that holds exactly `tokens`; drops the oldest where room is short."""
        if cache.length != len(tokens):
            raise ValueError(f"the cache holds {cache.length} positions for {len(tokens)} tokens")
        if not len(tokens) or cache.num_bytes > self.max_bytes:
            return
        stored = np.asarray(tokens, dtype=np.int64)
        for key, (entry_owner, other, _) in list(self._entries.items()):
            if (
                entry_owner == owner
                and len(other) <= len(stored)
                and _common_length(other, stored) == len(other)
            ):
                del self._entries[key]  # a prefix of the new one serves nothing more
        self._entries[self._serial] = (owner, stored, cache)
        self._serial += 1
        while self.num_bytes > self.max_bytes:
            self._entries.popitem(last=False)

    def clear(self) -> None:
        """Drops everything."""
        self._entries.clear()


def _common_length(first: Tokens, second: Tokens) -> int:
    n = min(len(first), len(second))
    differs = np.flatnonzero(first[:n] != second[:n])
    return int(differs[0]) if differs.size else n
