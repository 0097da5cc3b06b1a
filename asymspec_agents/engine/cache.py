"""A key-value cache that grows in place and rolls back exactly.

The only module that touches transformers' cache internals (`CacheLayerMixin`, transformers 5). Its layers are
used instead of `DynamicCache` because that one copies the whole cache at every step, and because the meaning
of its `crop` changed between releases.
"""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

__all__ = ["KVCache"]

MIN_CAPACITY = 256
GROWTH = 1.5


class _GrowingLayer(CacheLayerMixin):
    """One layer's keys and values in buffers with room to spare: [1, heads, capacity, head_dim]."""

    is_sliding = (
        False  # sliding layers keep everything too: their mask does the sliding, roll-back stays exact
    )
    keys: Tensor
    values: Tensor

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.length = 0
        self.reserved = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        capacity = max(MIN_CAPACITY, self.reserved)
        self.keys = _empty_like(key_states, capacity)
        self.values = _empty_like(value_states, capacity)
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[-2]
        if end > self.keys.shape[-2]:
            self._grow(max(end, self.reserved, int(self.keys.shape[-2] * GROWTH)))
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def _grow(self, capacity: int) -> None:
        keys, values = _empty_like(self.keys, capacity), _empty_like(self.values, capacity)
        keys[:, :, : self.length] = self.keys[:, :, : self.length]
        values[:, :, : self.length] = self.values[:, :, : self.length]
        self.keys, self.values = keys, values  # both or, where memory ran out, neither

    def copy_prefix(self, length: int, reserved: int) -> _GrowingLayer:
        """A layer of its own with the first `length` positions and room for `reserved`."""
        copy = _GrowingLayer()
        copy.reserved = max(length, reserved)
        if self.is_initialized:
            copy.update(self.keys[:, :, :length], self.values[:, :, :length])
        return copy

    @property
    def num_bytes(self) -> int:
        if not self.is_initialized:
            return 0
        return sum(t.numel() * t.element_size() for t in (self.keys, self.values))

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_seq_length(self) -> int:
        return self.length

    def get_max_length(self) -> int:
        return -1


def _empty_like(states: Tensor, capacity: int) -> Tensor:
    return states.new_empty((*states.shape[:-2], capacity, states.shape[-1]))


class KVCache(Cache):
    """The keys and values of one token sequence in one model."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=_GrowingLayer)
        self._reserved = 0

    @property
    def _rows(self) -> list[_GrowingLayer]:
        return cast(list[_GrowingLayer], self.layers)

    @property
    def length(self) -> int:
        """Number of positions every layer holds (after an interrupted forward, layers may differ)."""
        return min((layer.length for layer in self._rows), default=0)

    @property
    def num_bytes(self) -> int:
        """Bytes allocated, room to spare included."""
        return sum(layer.num_bytes for layer in self._rows)

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        while len(self.layers) <= layer_idx:
            layer = _GrowingLayer()
            layer.reserved = self._reserved
            self.layers.append(layer)
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    @property
    def reserved(self) -> int:
        """The positions the next allocation leaves room for."""
        return self._reserved

    def reserve(self, num_tokens: int) -> None:
        """Makes the next allocation leave room for `num_tokens` positions in all."""
        self._reserved = num_tokens
        for layer in self._rows:
            layer.reserved = num_tokens

    def rewind(self, length: int) -> None:
        """Forgets every position from `length` on; the rest stays bit for bit. Nothing to do if shorter."""
        length = min(length, self.length)
        for layer in self._rows:
            layer.length = length

    def copy_prefix(self, length: int, reserved: int) -> KVCache:
        """An independent cache with the first `length` positions and room for `reserved`."""
        copy = KVCache()
        copy.reserve(reserved)
        copy.layers = [layer.copy_prefix(length, reserved) for layer in self._rows]
        return copy

    def lengths(self) -> set[int]:
        """The lengths of all layers: one value for every model whose cache this class can roll back."""
        return {layer.length for layer in self._rows}
