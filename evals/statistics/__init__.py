"""Paired statistics of arms on the same samples: intervals, tests, and the recovered share of the gap."""

from __future__ import annotations

from .bootstrap import bootstrap, mean_difference, mean_estimate, mean_ratio
from .estimate import LEVEL, Estimate, wilson
from .paired import PairedTest, compare_pairs
from .recovery import RecoveredShare, recovered_share
from .trend import Trend, severity_trend

__all__ = [
    "LEVEL",
    "Estimate",
    "PairedTest",
    "RecoveredShare",
    "Trend",
    "bootstrap",
    "compare_pairs",
    "mean_difference",
    "mean_estimate",
    "mean_ratio",
    "recovered_share",
    "severity_trend",
    "wilson",
]
