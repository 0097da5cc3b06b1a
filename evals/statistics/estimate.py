"""A number with its interval, and Wilson's interval of a single proportion."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

from asymspec_agents.errors import ConfigurationError

__all__ = ["LEVEL", "Estimate", "wilson"]

LEVEL = 0.95
"""The confidence level of every interval here."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value over `num` samples and its 95 % interval; no bounds where there can be none, and `note` why.

    A bound may be infinite.
    """

    value: float
    low: float | None
    high: float | None
    num: int
    note: str = ""

    @property
    def has_interval(self) -> bool:
        """Whether both bounds are known."""
        return self.low is not None and self.high is not None

    def excludes(self, value: float) -> bool:
        """Whether the interval is known and does not hold `value`."""
        return self.low is not None and self.high is not None and not self.low <= value <= self.high


def wilson(num_successes: int, num: int) -> Estimate:
    """A proportion with Wilson's score interval (Wilson 1927), without continuity correction.

    Raises ConfigurationError where the count is not within 0 and `num`, or `num` is 0.
    """
    if not 0 <= num_successes <= num or num == 0:
        raise ConfigurationError(f"num_successes={num_successes!r} must be within 0 and num={num!r} > 0")
    z = NormalDist().inv_cdf(0.5 + LEVEL / 2)
    share, shrink = num_successes / num, 1 + z * z / num
    centre = (share + z * z / (2 * num)) / shrink
    half = z * (share * (1 - share) / num + z * z / (4 * num * num)) ** 0.5 / shrink
    low = 0.0 if num_successes == 0 else max(0.0, centre - half)
    high = 1.0 if num_successes == num else min(1.0, centre + half)
    return Estimate(share, low, high, num)
