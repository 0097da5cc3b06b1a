"""The detail of a block on the host: what each emitted position's models thought, as plain numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from ..decoding.detail import Best, PositionDetail

__all__ = ["Choice", "Position", "positions"]


@dataclass(frozen=True, slots=True)
class Choice:
    """A token and the probability a model gives it."""

    token: int
    probability: float


@dataclass(frozen=True, slots=True)
class Position:
    """One emitted position. `p_t`, `p_a`, `p_b` are the draft's probabilities, `emitted_p_t` the token's own.

    `draft` is None at a bonus token and in plain decoding. `argmax` is what the verifier alone would have
    emitted. Whatever the rule did not read is None or empty.
    """

    token: int
    draft: int | None
    argmax: int
    emitted_p_t: float
    p_t: float | None = None
    p_a: float | None = None
    p_b: float | None = None
    gamma_eff: float | None = None
    best_t: tuple[Choice, ...] = ()
    best_a: tuple[Choice, ...] = ()
    best_b: tuple[Choice, ...] = ()


def positions(detail: PositionDetail, tokens: list[int], drafts: Tensor) -> tuple[Position, ...]:
    """The positions of a batch of one that emitted `tokens`; copies from the device."""
    drafted = drafts[0].tolist()
    argmax, emitted = detail.argmax[0].tolist(), _exp(detail.emitted_t)
    p_t, p_a, p_b = (_exp(x) for x in (detail.draft_t, detail.draft_a, detail.draft_b))
    gamma = _exp(detail.log_gamma)
    best_t, best_a, best_b = (_choices(best) for best in (detail.best_t, detail.best_a, detail.best_b))
    return tuple(
        Position(
            token=token,
            draft=drafted[at] if at < len(drafted) else None,
            argmax=argmax[at],
            emitted_p_t=emitted[at],
            p_t=_at(p_t, at),
            p_a=_at(p_a, at),
            p_b=_at(p_b, at),
            gamma_eff=_at(gamma, at),
            best_t=best_t[at],
            best_a=best_a[at] if at < len(best_a) else (),
            best_b=best_b[at] if at < len(best_b) else (),
        )
        for at, token in enumerate(tokens)
    )


def _exp(log_probs: Tensor | None) -> list[float]:
    return [] if log_probs is None else [math.exp(x) for x in log_probs[0].tolist()]


def _at(values: list[float], at: int) -> float | None:
    return values[at] if at < len(values) else None


def _choices(best: Best | None) -> list[tuple[Choice, ...]]:
    if best is None:
        return []
    ids, log_probs = best.ids[0].tolist(), best.log_probs[0].tolist()
    return [
        tuple(Choice(token, math.exp(x)) for token, x in zip(row, values, strict=True))
        for row, values in zip(ids, log_probs, strict=True)
    ]
