"""Attention of a few tokens over a long cache on a CPU, without copying the cache.

Where several query heads share one key head, transformers' attention repeats keys and values for every query
head in every layer and step. Reading few tokens, it is the same sum with the sharing query heads stacked as
further query positions: [batch, heads, n, d] becomes [batch, key heads, heads/key heads · n, d].
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from .packed import PackedStates, packed_attention

__all__ = ["NAME", "read_cache_in_place"]

NAME = "asymspec_sdpa"
MAX_STACKED_TOKENS = 16  # beyond, the work is in the products and stacking gains nothing


def read_cache_in_place(module: PreTrainedModel) -> None:
    """Gives a model that runs transformers' sdpa attention on a CPU this one; others stay as they are."""
    config = module.config.get_text_config(decoder=True)
    if config._attn_implementation == "sdpa" and module.device.type == "cpu":
        module.set_attn_implementation(NAME)


def attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor | PackedStates,
    value: Tensor | PackedStates,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """transformers' sdpa attention, stacked where that is faster: [batch, n, heads, d]."""
    if isinstance(key, PackedStates):
        return packed_attention(query, key, cast(PackedStates, value), scaling), None
    value = cast(Tensor, value)
    batch, num_heads, num_tokens, width = query.shape
    num_key_heads = key.shape[1]
    num_sharing = num_heads // num_key_heads
    is_stackable = (
        num_sharing > 1
        and num_tokens <= MAX_STACKED_TOKENS
        and dropout == 0.0
        and kwargs.get("position_bias") is None
        and (num_tokens == 1 if attention_mask is None else attention_mask.shape[1] == 1)
    )
    if not is_stackable:
        plain: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **kwargs
        )
        return plain
    stacked = query.reshape(batch, num_key_heads, num_sharing * num_tokens, width)
    if attention_mask is not None:
        attention_mask = attention_mask.repeat(1, 1, num_sharing, 1)  # the same rows for each sharing head
    output = torch.nn.functional.scaled_dot_product_attention(
        stacked, key, value, attn_mask=attention_mask, scale=scaling
    )
    output = output.reshape(batch, num_heads, num_tokens, value.shape[-1])
    return output.transpose(1, 2).contiguous(), None


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
