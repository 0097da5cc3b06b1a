"""The growing cache: exact roll-back, copies of its own, growth, failures in mid-forward, architectures."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from torch import nn

from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.model import CausalModel

from .fresh import LOGIT_TOLERANCE, check_cache, uncached_logits
from .tiny import ARCHITECTURES, SHAPE, pair, prompt

by_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


def _read(model: CausalModel, cache: KVCache, tokens: list[int]) -> torch.Tensor:
    return model.forward(torch.tensor([tokens]), cache, len(tokens))[0]


@by_architecture
def test_rewind_and_read_other_tokens(architecture: str) -> None:
    model, _ = pair(architecture)
    tokens, others = prompt(1, 60), prompt(2, 40)
    cache = KVCache()
    _read(model, cache, tokens)
    for length in (59, 40, 41, 7, 1, 0):
        cache.rewind(length)
        assert cache.length == length
        kept = tokens[:length]
        check_cache(model, cache, kept + others)
        logits = _read(model, cache, others)
        expected = uncached_logits(model, kept + others)[length:]
        torch.testing.assert_close(logits, expected, atol=LOGIT_TOLERANCE, rtol=1e-4)
        cache.rewind(length)
        _read(model, cache, tokens[length:])
        check_cache(model, cache, [*tokens, 0])


def test_rewinding_forward_does_nothing() -> None:
    model, _ = pair("qwen2")
    cache = KVCache()
    cache.rewind(5)
    assert (cache.length, cache.num_bytes) == (0, 0)
    _read(model, cache, prompt(1, 10))
    cache.rewind(50)
    assert cache.length == 10


@by_architecture
@pytest.mark.parametrize("reserved", [0, 300, 2000])
def test_growth_beyond_the_reserve(architecture: str, reserved: int) -> None:
    model, _ = pair(architecture)
    tokens = prompt(3, 901)
    cache = KVCache()
    cache.reserve(reserved)
    start = 0
    for size in (250, 7, 1, 200, 400, 42):
        _read(model, cache, tokens[start : start + size])
        start += size
    assert cache.length == 900
    check_cache(model, cache, tokens)
    per_token = 2 * 2 * SHAPE["num_key_value_heads"] * 8 * 4  # keys and values, layers, heads, head_dim, fp32
    assert 900 * per_token <= cache.num_bytes <= max(reserved, 900 * 1.5) * per_token
    if reserved >= 900:
        assert cache.num_bytes == reserved * per_token  # allocated once


@by_architecture
def test_a_copy_is_independent(architecture: str) -> None:
    model, _ = pair(architecture)
    tokens, others = prompt(4, 50), prompt(5, 50)
    cache = KVCache()
    _read(model, cache, tokens[:40])
    copy = cache.copy_prefix(25, 400)
    assert (copy.length, cache.length) == (25, 40)
    _read(model, copy, others)
    _read(model, cache, tokens[40:])
    check_cache(model, copy, [*tokens[:25], *others, 0])
    check_cache(model, cache, [*tokens, 0])
    copy.rewind(0)
    check_cache(model, cache, [*tokens, 0])


def test_a_copy_of_nothing() -> None:
    copy = KVCache().copy_prefix(0, 100)
    assert (copy.length, copy.num_bytes) == (0, 0)
    model, _ = pair("qwen2")
    _read(model, copy, prompt(1, 9))
    check_cache(model, copy, prompt(1, 10))


class _Interruption(BaseException):
    """Like a KeyboardInterrupt."""


@by_architecture
@pytest.mark.parametrize("num_read", [0, 30])
@pytest.mark.parametrize("layer", [0, 1])
def test_an_interrupted_forward_leaves_the_cache_as_it_was(
    architecture: str, num_read: int, layer: int
) -> None:
    model, _ = pair(architecture)
    tokens = prompt(6, 80)
    cache = KVCache()
    if num_read:
        _read(model, cache, tokens[:num_read])

    def interrupt(module: nn.Module, args: Any) -> None:
        raise _Interruption

    hook = model.module.get_submodule(f"model.layers.{layer}.mlp").register_forward_pre_hook(interrupt)
    try:
        with pytest.raises(_Interruption):
            _read(model, cache, tokens[num_read:70])
    finally:
        hook.remove()
    assert cache.length == num_read
    check_cache(model, cache, tokens)
    _read(model, cache, tokens[num_read:70])
    check_cache(model, cache, tokens)


TINY: dict[str, Any] = {**SHAPE, "vocab_size": 97, "head_dim": 8}
OTHER_ARCHITECTURES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", TINY),
    "qwen3": ("Qwen3", TINY),
    "gemma2": ("Gemma2", {**TINY, "sliding_window": 8}),  # sliding and full layers in turn, capped logits
    "gemma3": (
        "Gemma3Text",
        {**TINY, "sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"]},
    ),
    "phi3": ("Phi3", {**TINY, "pad_token_id": 0}),
    "olmo2": ("Olmo2", TINY),
    "qwen3_moe": (
        "Qwen3Moe",
        {**TINY, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    ),
    "gpt2": ("GPT2", {"vocab_size": 97, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 256}),
}


@pytest.mark.parametrize("name", OTHER_ARCHITECTURES)
def test_other_architectures_roll_back_too(name: str) -> None:
    kind, shape = OTHER_ARCHITECTURES[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{kind}Config")(**shape)
    model = CausalModel(transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32), name)
    tokens, others = prompt(7, 50), prompt(8, 20)
    cache = KVCache()
    _read(model, cache, tokens[:40])
    cache.rewind(30)
    _read(model, cache, others[:3])
    cache.rewind(31)
    check_cache(model, cache, [*tokens[:30], *others])
