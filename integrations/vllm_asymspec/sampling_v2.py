"""What the second model runner samples with: vLLM's samplers, which keep the last word on all other requests.

vLLM's code makes the logits (grammar masks, penalties, biases), and afterwards whatever follows from the
tokens, such as log-probabilities; only the tokens of AsymSpec requests are the rule's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .rounds import Rounds
from .slots import on_device

__all__ = ["Judging", "adopt_samplers"]


@dataclass(frozen=True, slots=True)
class Judging:
    """The AsymSpec requests that emit tokens at a step, each with a round that waits for its verdict.

    Requests are known by their index in the runner's state. `num_drafts`: drafts the verifier read and the
    request's grammar allows, of ours. `num_logits`: rows of logits of every request of the batch.
    """

    rounds: Rounds
    names: Mapping[int, str]
    num_drafts: Mapping[int, int]
    num_logits: Mapping[int, int]

    def replace(
        self, logits: Tensor, indices: NDArray[np.intp], tokens: Tensor, num_tokens: Tensor | None
    ) -> None:
        """Puts the rule's tokens over the sampler's, in the rows of a batch that are ours.

        logits [num_logits, vocab] of the requests `indices`, one after the other; tokens [R, T] and
        num_tokens [R], if they may be several.
        """
        requests: list[int] = indices.tolist()
        own = [row for row, index in enumerate(requests) if index in self.names]
        if not own:
            return
        counts = np.array([self.num_logits[index] for index in requests])
        num_drafts = np.array([self.num_drafts[requests[row]] for row in own], dtype=np.int64)
        starts = (np.cumsum(counts) - counts)[own]
        place = np.minimum(np.arange(num_drafts.max() + 1)[None, :], num_drafts[:, None])  # [own, T]
        verifier = logits[on_device(starts[:, None] + place, torch.int64, logits.device)]
        verdict = self.rounds.verify([self.names[requests[row]] for row in own], verifier, num_drafts)
        rows = on_device(own, torch.int64, tokens.device)
        tokens[rows] = verdict.tokens[:, : tokens.shape[1]].to(tokens.dtype)
        if num_tokens is not None:
            num_tokens[rows] = verdict.num_tokens.to(num_tokens.dtype)


class _Sampler:
    """Mixed into the sampler of a batch without drafts: one row of logits for each request."""

    asymspec: Judging | None = None  # set for the length of a step

    def sample(
        self,
        logits: Tensor,
        expanded_idx_mapping: Tensor,
        idx_mapping: Tensor,
        idx_mapping_np: NDArray[np.intp],
        *further: Any,
        **named: Any,
    ) -> tuple[Tensor, Tensor]:
        tokens, processed = super().sample(  # type: ignore[misc]
            logits, expanded_idx_mapping, idx_mapping, idx_mapping_np, *further, **named
        )
        if self.asymspec is not None:
            self.asymspec.replace(processed, idx_mapping_np, tokens.view(-1, 1), None)
        return tokens, processed


class _RejectionSampler:
    """Mixed into the sampler of a batch with drafts, which may judge it in several parts."""

    sampler: _Sampler

    def _verify(
        self,
        logits: Tensor,
        draft_logits: Tensor | None,
        draft_sampled: Tensor,
        pos: Tensor,
        cu_num_logits: Tensor,
        idx_mapping: Tensor,
        idx_mapping_np: NDArray[np.intp],
        *further: Any,
        **named: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        processed, tokens, num_tokens = super()._verify(  # type: ignore[misc]
            logits,
            draft_logits,
            draft_sampled,
            pos,
            cu_num_logits,
            idx_mapping,
            idx_mapping_np,
            *further,
            **named,
        )
        if self.sampler.asymspec is not None:
            self.sampler.asymspec.replace(processed, idx_mapping_np, tokens, num_tokens)
        return processed, tokens, num_tokens


def adopt_samplers(runner: Any) -> None:
    """Makes both samplers of a runner ours, with their state as it is."""
    for sampler, mixin in ((runner.sampler, _Sampler), (runner.rejection_sampler, _RejectionSampler)):
        kind = type(sampler)
        sampler.__class__ = type(f"AsymSpec{kind.__name__}", (mixin, kind), {})
