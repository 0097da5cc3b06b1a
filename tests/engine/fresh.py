"""What a cache must equal: a fresh reading of the same tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from asymspec_agents.engine.cache import KVCache
from asymspec_agents.engine.model import CausalModel
from asymspec_agents.engine.view import View

__all__ = ["LOGIT_TOLERANCE", "check_cache", "check_view", "uncached_logits"]

LOGIT_TOLERANCE = 2e-4  # fp32, logits of about 10: the order of summation differs, nothing else may
STATE_TOLERANCE = 2e-5


@torch.inference_mode()
def uncached_logits(model: CausalModel, tokens: Sequence[int]) -> Tensor:
    """Logits of every position, [tokens, vocab], from one forward without a cache."""
    logits: Tensor = model.module(input_ids=_ids(model, tokens), use_cache=False).logits[0]
    return logits


def check_cache(model: CausalModel, cache: KVCache, tokens: Sequence[int]) -> None:
    """Asserts that the cache holds a prefix of `tokens` as a fresh prefill of it would, and goes on like it.

    The cache is left as it was.
    """
    length = cache.length
    assert length < len(tokens)
    assert cache.lengths() <= {length}
    if length:
        fresh = KVCache()
        model.forward(_ids(model, tokens[:length]), fresh, 1)
        for mine, theirs in zip(cache.layers, fresh.layers, strict=True):
            for name in ("keys", "values"):
                states = getattr(mine, name)[:, :, :length]
                wanted = getattr(theirs, name)[:, :, :length]
                torch.testing.assert_close(states, wanted, atol=STATE_TOLERANCE, rtol=1e-4)
    unread = len(tokens) - length
    logits = model.forward(_ids(model, tokens[length:]), cache.copy_prefix(length, 0), unread)[0]
    torch.testing.assert_close(
        logits, uncached_logits(model, tokens)[length:], atol=LOGIT_TOLERANCE, rtol=1e-4
    )
    assert cache.length == length


def check_view(view: View, committed: Sequence[int]) -> None:
    """Asserts that a view between two blocks is exactly where it must be in prompt + committed."""
    tokens = [*view.prompt, *committed]
    assert view.tokens(committed) == tokens[: view.cache.length]
    check_cache(view.model, view.cache, tokens)


def _ids(model: CausalModel, tokens: Sequence[int]) -> Tensor:
    return torch.tensor([list(tokens)], device=model.device)
