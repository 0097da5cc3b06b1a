"""Two arms on the same samples: mean difference, wins and losses, and McNemar's exact test.

Source: McNemar (1947), in its exact form: under equal arms the discordant pairs fall either way with
probability 1/2, so the smaller count is binomial.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .bootstrap import mean_difference
from .estimate import Estimate

__all__ = ["PairedTest", "compare_pairs", "mcnemar"]


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Left against right: `difference` is left − right, a win is a pair where left is higher.

    `p_value` is McNemar's, for binary values of independent samples; None otherwise.
    """

    difference: Estimate
    num_wins: int
    num_losses: int
    num_ties: int
    p_value: float | None


def compare_pairs(
    left: Sequence[float],
    right: Sequence[float],
    *,
    clusters: Sequence[str] | None = None,
    is_binary: bool = False,
) -> PairedTest:
    """The comparison of two arms' values, given in the same order of samples."""
    difference = mean_difference(left, right, clusters)
    wins = sum(a > b for a, b in zip(left, right, strict=True))
    losses = sum(a < b for a, b in zip(left, right, strict=True))
    is_binary = is_binary and {*left, *right} <= {0.0, 1.0} and clusters is None
    return PairedTest(
        difference, wins, losses, len(left) - wins - losses, mcnemar(wins, losses) if is_binary else None
    )


def mcnemar(num_wins: int, num_losses: int) -> float:
    """The two-sided exact p-value of so many discordant pairs each way; 1 where there are none."""
    num = num_wins + num_losses
    ways, below = 1, 1  # whole numbers: exact, however many pairs there are
    for k in range(min(num_wins, num_losses)):
        ways = ways * (num - k) // (k + 1)
        below += ways
    return min(1.0, below / (1 << num) * 2)
