"""How much of several texts fits the room there is: one share for all of them, from a fixed scale."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["largest_share"]

STEPS_PER_HALF = 4  # each step is 0.84 of the one before: few enough that renditions recur from call to call


def largest_share(
    whole: Sequence[int], shown: Sequence[int], wanted: int, smallest: int, *, below: float
) -> float | None:
    """The largest share on the scale at which texts take at most `wanted` tokens; None where there is none.

    `whole` are the tokens that the shares are of, `shown` those that the texts have now; no text gets fewer
    than `smallest`.
    """
    step, share = 0, 1.0
    while max(whole, default=0) * share > smallest:
        step += 1
        share = 2 ** (-step / STEPS_PER_HALF)
        if share < below and _tokens(whole, shown, share, smallest) <= wanted:
            return share
    return None


def _tokens(whole: Sequence[int], shown: Sequence[int], share: float, smallest: int) -> int:
    return sum(
        min(now, max(smallest, round(tokens * share))) for tokens, now in zip(whole, shown, strict=True)
    )
