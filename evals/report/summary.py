"""`summary.json`: every number of a report with its interval, and where the run came from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

from ..plan import Plan
from .planned import provenance_of
from .results import SuiteResult

__all__ = ["FORMAT", "summary"]

FORMAT = 1


def summary(plan: Plan, suites: Sequence[SuiteResult]) -> dict[str, Any]:
    """The report's numbers as plain JSON; infinite bounds are the strings "inf" and "-inf"."""
    return {
        "format": FORMAT,
        "level": 0.95,
        "suites": [
            {**_plain(dataclasses.asdict(suite)), "provenance": provenance_of(plan, suite.name)}
            for suite in suites
        ],
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "inf" if value > 0 else "-inf" if value < 0 else None
    return value
