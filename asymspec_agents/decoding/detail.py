"""What the rule read at every position of a block, for those who want to see why a token was emitted.

Nothing here decides anything: `verify_block` does, from the same log-probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Best", "PositionDetail", "describe"]


@dataclass(frozen=True, slots=True)
class Best:
    """The likeliest tokens of each position, best first: ids and log-probabilities, [batch, positions, k]."""

    ids: Tensor
    log_probs: Tensor


@dataclass(frozen=True, slots=True)
class PositionDetail:
    """Log-probabilities of emitted tokens [batch, T] and of drafts [batch, P], and each reader's best tokens.

    `argmax` [batch, T]: the token the verifier alone would have emitted. `log_gamma`: log of the threshold
    that the gate applied to p_b, None for gates without one. What concerns a (the drafter on the full view)
    or b (on the compressed one) is None where the rule did not read it. Values at positions that were not
    judged mean nothing.
    """

    argmax: Tensor
    emitted_t: Tensor
    draft_t: Tensor
    draft_a: Tensor | None
    draft_b: Tensor | None
    log_gamma: Tensor | None
    best_t: Best
    best_a: Best | None
    best_b: Best | None


def describe(
    tokens: Tensor,
    drafts: Tensor,
    t: Tensor,
    a: Tensor | None,
    b: Tensor | None,
    log_gamma: Tensor | None,
    num_alternatives: int,
) -> PositionDetail:
    """The detail of a block whose emitted `tokens` are [batch, T] and whose drafts are [batch, P].

    t [batch, T, vocab], a and b [batch, P, vocab] are log-probabilities.
    """
    num_places = drafts.shape[1]
    return PositionDetail(
        argmax=t.argmax(dim=-1),
        emitted_t=_of(t, tokens),
        draft_t=_of(t[:, :num_places], drafts),
        draft_a=None if a is None else _of(a, drafts),
        draft_b=None if b is None else _of(b, drafts),
        log_gamma=log_gamma,
        best_t=_best(t, num_alternatives),
        best_a=None if a is None else _best(a, num_alternatives),
        best_b=None if b is None else _best(b, num_alternatives),
    )


def _of(x: Tensor, tokens: Tensor) -> Tensor:
    """The tokens' log-probabilities; ids that are none count as the nearest id that is one."""
    return x.gather(-1, tokens.clamp(0, x.shape[-1] - 1)[..., None])[..., 0]


def _best(x: Tensor, number: int) -> Best:
    values, ids = torch.topk(x, min(number, x.shape[-1]), dim=-1)
    return Best(ids, values)
