"""Whether a gain grows with the severity of compression: its slope per halving of the view's size.

The paper's truncation sweep claims that it does (+26.7 points over Floor at 500 tokens, +0.8 at 12,000).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from asymspec_agents.errors import ConfigurationError

from .bootstrap import bootstrap
from .estimate import Estimate

__all__ = ["Trend", "severity_trend"]


@dataclass(frozen=True, slots=True)
class Trend:
    """Gains from the largest to the smallest size, and the slope of their least-squares line per halving."""

    sizes: tuple[float, ...]
    gains: tuple[float, ...]
    slope: Estimate

    @property
    def grows(self) -> bool:
        """Whether the slope's interval lies above 0."""
        return self.slope.low is not None and self.slope.low > 0

    @property
    def is_monotone(self) -> bool:
        """Whether no gain is below that of the next larger size."""
        return all(a <= b for a, b in zip(self.gains, self.gains[1:], strict=False))


def severity_trend(gains: Mapping[float, Sequence[float]], clusters: Sequence[str] | None = None) -> Trend:
    """The trend of per-sample gains by size; the same samples in the same order at every size.

    Raises ConfigurationError for fewer than two sizes.
    """
    if len(gains) < 2:
        raise ConfigurationError(f"gains at {len(gains)} size(s): a trend needs at least two")
    sizes = sorted(gains, reverse=True)
    severity = [-math.log2(size) for size in sizes]
    middle = fmean(severity)
    spread = sum((s - middle) ** 2 for s in severity)
    weights = [(s - middle) / spread for s in severity]

    def slope(means: Any) -> Any:
        return sum(weight * mean for weight, mean in zip(weights, means, strict=True))

    columns = [gains[size] for size in sizes]
    return Trend(
        tuple(sizes), tuple(fmean(column) for column in columns), bootstrap(columns, slope, clusters=clusters)
    )
