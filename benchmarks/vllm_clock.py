"""Hooks of `benchmarks/vllm.py` in a vLLM engine: what bare forwards take, and verdicts by coin."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn.functional import pad

from asymspec_agents.decoding.rule import BlockResult, verify_block

__all__ = ["Coins", "ForwardClock"]


class ForwardClock:
    """Adds up the seconds that models of vLLM spend in `forward` and `compute_logits`, on a CPU."""

    def __init__(self, models: list[Any]) -> None:
        self.seconds = 0.0
        for model in models:
            for name in ("forward", "compute_logits"):
                setattr(model, name, self._timed(getattr(model, name)))

    def _timed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **named: Any) -> Any:
            started = time.perf_counter()
            result = function(*args, **named)
            self.seconds += time.perf_counter() - started
            return result

        return timed


class Coins:
    """From here on each draft of this process's engine stands by a seeded coin; all work is done as before.

    A refused draft ends its block and is emitted. One coin for each place of a block, looked at or not, so a
    block of the plugin's and one of vLLM's own have as many tokens.
    """

    def __init__(self, acceptance: float) -> None:
        from vllm.v1.sample import rejection_sampler

        from vllm_asymspec import judging

        self._acceptance = acceptance
        self._generator = torch.Generator().manual_seed(0)
        self._judge_stock = rejection_sampler.rejection_sample
        patch.object(judging, "verify_block", self._judge).start()
        patch.object(rejection_sampler, "rejection_sample", self._sample).start()

    def _num_accepted(self, num_drafts: Tensor, num_places: int) -> Tensor:
        coins = torch.rand((len(num_drafts), num_places), generator=self._generator)
        stands = (coins < self._acceptance).long()
        return torch.minimum(stands.cumprod(dim=1).sum(dim=1), num_drafts)

    def _judge(self, *args: Any, num_drafts: Tensor, **named: Any) -> BlockResult:
        """In place of the plugin's verdict, where no block ends with the verifier's own token."""
        result = verify_block(*args, num_drafts=num_drafts, **named)
        drafts: Tensor = args[1]  # [R, P]
        num_accepted = self._num_accepted(num_drafts, drafts.shape[1])
        num_tokens = torch.minimum(num_accepted + 1, num_drafts)
        is_emitted = torch.arange(drafts.shape[1]) < num_tokens[:, None]
        return replace(
            result,
            tokens=torch.where(is_emitted, drafts, -1),
            num_tokens=num_tokens,
            num_accepted=num_accepted,
            num_fused=num_tokens - num_accepted,
            num_bonus=torch.zeros_like(num_tokens),
            num_judged=num_tokens,
        )

    def _sample(
        self, draft_token_ids: Tensor, num_draft_tokens: list[int], *args: Any, **named: Any
    ) -> Tensor:
        """In place of vLLM's: [R, K + 1], -1 from each row's end on."""
        sampled: Tensor = self._judge_stock(draft_token_ids, num_draft_tokens, *args, **named)
        num_drafts = torch.tensor(num_draft_tokens)
        num_accepted = self._num_accepted(num_drafts, sampled.shape[1] - 1)
        first = torch.cumsum(num_drafts, 0) - num_drafts
        place = torch.arange(sampled.shape[1])
        # Behind a row's drafts stands the verifier's own token; here any will do.
        drafts = pad(draft_token_ids, (0, len(place)))[first[:, None] + place]
        return torch.where(place <= num_accepted[:, None], drafts, -1).to(sampled.dtype)
