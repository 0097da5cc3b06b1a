"""Two sequences of one model read in one forward, so that its weights are read once for both.

Decoding is bound by reading weights: a step of the drafter's full view and the same step of its base pass
cost together what one of them costs. The new tokens of both stand one after the other in one row; positions,
caches and attention stay apart. Keys and values travel through the model's attention layers as
`PackedStates`, which only this package's attention function understands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from .cache import KVCache

__all__ = ["PackedCache", "PackedStates", "packed_attention", "positions"]


@dataclass(frozen=True, slots=True)
class PackedStates:
    """The keys (or values) of every sequence, [1, key heads, length, d] each, and their new tokens."""

    parts: tuple[Tensor, ...]
    num_new: list[int]


class PackedCache(Cache):
    """Several caches behind one: what a forward appends is split among them by `num_new`."""

    def __init__(self, caches: Sequence[KVCache], num_new: Sequence[int]) -> None:
        super().__init__(layers=[])
        self.caches = tuple(caches)
        self.num_new = list(num_new)

    def update(  # type: ignore[override]  # only packed_attention sees what this returns
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[PackedStates, PackedStates]:
        pieces = zip(
            self.caches,
            torch.split(key_states, self.num_new, dim=-2),
            torch.split(value_states, self.num_new, dim=-2),
            strict=True,
        )
        stored = [cache.update(keys, values, layer_idx) for cache, keys, values in pieces]
        return (
            PackedStates(tuple(keys for keys, _ in stored), self.num_new),
            PackedStates(tuple(values for _, values in stored), self.num_new),
        )

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return 0

    def get_mask_sizes(self, query_length: int, layer_idx: int) -> tuple[int, int]:
        return query_length, 0


def packed_attention(query: Tensor, key: PackedStates, value: PackedStates, scale: float | None) -> Tensor:
    """Causal attention of each sequence's new tokens over its own keys: [1, n, heads, d].

    Query heads that share a key head are stacked as further positions, see `attention`.
    """
    queries = torch.split(query, key.num_new, dim=-2)
    outputs = [
        _attend(part, keys, values, scale)
        for part, keys, values in zip(queries, key.parts, value.parts, strict=True)
    ]
    return torch.cat(outputs, dim=-2).transpose(1, 2).contiguous()


def _attend(query: Tensor, keys: Tensor, values: Tensor, scale: float | None) -> Tensor:
    batch, num_heads, num_tokens, width = query.shape
    num_key_heads, length = keys.shape[1], keys.shape[2]
    num_sharing = num_heads // num_key_heads
    mask = None
    if num_tokens > 1:
        rows = torch.ones((num_tokens, length), dtype=torch.bool, device=query.device)
        mask = rows.tril(length - num_tokens).repeat(num_sharing, 1)  # [sharing · n, length]
    stacked = query.reshape(batch, num_key_heads, num_sharing * num_tokens, width)
    output = torch.nn.functional.scaled_dot_product_attention(
        stacked, keys, values, attn_mask=mask, scale=scale
    )
    return output.reshape(batch, num_heads, num_tokens, values.shape[-1])


def positions(caches: Sequence[KVCache], num_new: Sequence[int]) -> Iterator[int]:
    """The positions of all new tokens, each sequence counted by itself."""
    for cache, count in zip(caches, num_new, strict=True):
        yield from range(cache.length, cache.length + count)
