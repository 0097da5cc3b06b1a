"""The recovered share of the Floor–Ceiling gap: (A − F) / (C − F), over samples that all three answered.

Undefined where Ceiling is not above Floor: there is no gap to recover. A draw without a positive gap counts
as an infinite share with the sign of its A − F, so a bound that such draws reach is infinite; where more than
2.5 % of the draws have no positive gap, the gap itself is not established at the interval's level, and the
interval is unbounded on both sides (as Fieller's interval of a ratio is).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from .bootstrap import resampled
from .estimate import LEVEL, Estimate

__all__ = ["MAX_SHARE_WITHOUT_GAP", "RecoveredShare", "recovered_share"]

MAX_SHARE_WITHOUT_GAP = (1 - LEVEL) / 2


@dataclass(frozen=True, slots=True)
class RecoveredShare:
    """`share` is None where undefined; `share_without_gap` is that of draws where Ceiling is not above Floor.

    `status` is `ok`, `unbounded` (the interval is the whole line) or `undefined`.
    """

    share: Estimate | None
    share_without_gap: float
    status: str

    @property
    def is_recovery(self) -> bool:
        """Whether the interval lies above 0: what recovery may be claimed on."""
        return (
            self.status == "ok" and self.share is not None and self.share.excludes(0) and self.share.value > 0
        )


def recovered_share(
    arm: Sequence[float],
    floor: Sequence[float],
    ceiling: Sequence[float],
    *,
    clusters: Sequence[str] | None = None,
    seed: int = 0,
) -> RecoveredShare:
    """The share with its percentile interval; the three are values of the same samples in the same order.

    Raises ConfigurationError for no samples or lists of several lengths.
    """
    gain, gap = ([a - b for a, b in zip(values, floor, strict=True)] for values in (arm, ceiling))
    draws = resampled([gain, gap], clusters, seed=seed)
    import numpy as np

    without = float(np.mean(draws[1] <= 1e-12))
    total = math.fsum(gap)
    if total <= 1e-12:
        return RecoveredShare(None, without, "undefined")
    value, num = math.fsum(gain) / total, len(gap)
    if without > MAX_SHARE_WITHOUT_GAP:
        note = f"{without:.1%} of draws have no gap"
        return RecoveredShare(Estimate(value, -math.inf, math.inf, num, note), without, "unbounded")
    num_units = num if clusters is None else len(set(clusters))
    if num_units < 2:
        return RecoveredShare(Estimate(value, None, None, num, "one sample or cluster"), without, "ok")
    has_gap = draws[1] > 1e-12
    shares = np.where(has_gap, draws[0] / np.where(has_gap, draws[1], 1), np.copysign(np.inf, draws[0]))
    low, high = (
        float(np.quantile(shares, tail, method="nearest")) for tail in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
    )
    return RecoveredShare(Estimate(value, low, high, num), without, "ok")
