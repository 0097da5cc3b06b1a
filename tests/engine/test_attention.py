"""The in-place attention computes what transformers' own does, and is used where it can be."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

from asymspec_agents.engine import attention as attention_module
from asymspec_agents.engine.attention import MAX_STACKED_TOKENS, NAME, attention
from asymspec_agents.engine.cache import KVCache

from .tiny import pair


class Layer(torch.nn.Module):
    """What transformers' attention reads from a layer."""

    is_causal = True

    def __init__(self, num_key_value_groups: int) -> None:
        super().__init__()
        self.num_key_value_groups = num_key_value_groups


def inputs(num_heads: int, num_key_heads: int, num_tokens: int, length: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(num_heads + num_tokens)
    shapes = [(2, num_heads, num_tokens, 8), (2, num_key_heads, length, 8), (2, num_key_heads, length, 8)]
    query, key, value = (torch.randn(shape, generator=generator) for shape in shapes)
    return query.transpose(1, 2).contiguous().transpose(1, 2), key, value  # as projections leave it


@pytest.mark.parametrize(("num_heads", "num_key_heads"), [(4, 2), (6, 1), (4, 4)])
@pytest.mark.parametrize("num_tokens", [1, 3, MAX_STACKED_TOKENS, MAX_STACKED_TOKENS + 1])
@pytest.mark.parametrize("mask_kind", ["none", "causal", "float", "window"])
def test_it_equals_the_plain_one(num_heads: int, num_key_heads: int, num_tokens: int, mask_kind: str) -> None:
    query, key, value = inputs(num_heads, num_key_heads, num_tokens, 40)
    mask: torch.Tensor | None = torch.ones(num_tokens, 40, dtype=torch.bool).tril(40 - num_tokens)[None, None]
    if mask_kind == "none":
        mask = None
    elif mask_kind == "window":
        assert mask is not None
        mask = mask.triu(40 - num_tokens - 5)  # each token sees itself and five before it
    elif mask_kind == "float":
        mask = torch.randn(2, 1, num_tokens, 40)
    layer = Layer(num_heads // num_key_heads)
    for scaling in (None, 0.1):
        mine, _ = attention(layer, query, key, value, mask, scaling=scaling)
        theirs, _ = sdpa_attention_forward(layer, query, key, value, mask, scaling=scaling)
        assert mine.is_contiguous()
        torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-5)


def test_it_is_used_for_short_reads_of_shared_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    model, _ = pair("qwen2")
    assert model.module.config._attn_implementation == NAME
    plain: list[int] = []

    def watched(module: Any, query: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        plain.append(query.shape[2])
        return sdpa_attention_forward(module, query, *args, **kwargs)

    monkeypatch.setattr(attention_module, "sdpa_attention_forward", watched)
    cache = KVCache()
    for length in (40, 1, 3, MAX_STACKED_TOKENS, MAX_STACKED_TOKENS + 1):
        model.forward(torch.ones(1, length, dtype=torch.long), cache, 1)
    assert set(plain) == {40, MAX_STACKED_TOKENS + 1}
