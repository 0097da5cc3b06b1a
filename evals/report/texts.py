"""Sentences that stand in both renderings: how to read the numbers."""

from __future__ import annotations

from .results import Section

__all__ = ["RULES", "section_title"]

RULES = (
    "Intervals are at 95 %: Wilson's for a share of right answers, BCa bootstrap for other means and for "
    "paired differences, percentile bootstrap for ratios. p is McNemar's exact test.",
    "A failed answer counts as 0 and stays in the denominator; so does an answer that the judge failed to "
    "grade, which is counted apart.",
    "Recovered is (arm − Floor) / (Ceiling − Floor). It is undefined where Ceiling is not above Floor. A "
    "bootstrap draw without a positive gap counts as an infinite share; where more than 2.5 % of the draws "
    "are such, the interval is unbounded.",
    "Recovery may be claimed only where the whole interval is above 0, and the drafter alone is the other "
    "comparison to win.",
    "Costs are relative to Ceiling in the same run, over the samples that both answered. FLOPs are "
    "2 · parameters · tokens computed, the compressor's included. Where several answers were asked at once "
    "(num_parallel), seconds include waiting for each other.",
)


def section_title(section: Section) -> str:
    """What a section is about."""
    return "Full view" if section.view is None else f"View {section.view}"
