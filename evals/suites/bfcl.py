"""BFCL, single-turn function calls in Python: one function, several to choose from, several calls.

The functions are the request's tools and the model calls them natively. The compressed view is the tools'
signatures: names, types, required parameters and enums, without the descriptions. Answers whose calls are
written as text are read as `scorers.calls` says, and the score's details tell which they were.
`accuracy_any_form` is the accuracy if calls shown within prose counted as well: the difference is what an arm
loses by form alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import parse_messages, parse_tools

from ..records import Output, Score
from ..sample import Sample
from ..scorers.bfcl_calls import check_calls, check_documented
from ..scorers.calls import read_calls, read_calls_anywhere
from ..suite import Judge, Suite
from .bfcl_release import BfclRelease
from .bfcl_tools import as_tools

__all__ = ["BfclMultiple", "BfclParallel", "BfclSimple"]

_SOURCE = (
    "Berkeley Function-Calling Leaderboard v4, {} questions, package bfcl-eval 2026.3.23 (Apache-2.0): "
    "--data takes its wheel, its folder or a checkout; without it the installed package is read"
)


class _Bfcl(Suite):
    has_tools = True
    metric = "accuracy"
    default_views = ("signature",)
    category: str
    max_tokens = 512

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        """The questions of the release at `path`, or of the installed package."""
        return [self._sample(record) for record in BfclRelease(path).questions(self.category)]

    def _sample(self, record: Mapping[str, Any]) -> Sample:
        place = f"{self.name}: question {record['id']!r}"
        try:
            messages = parse_messages([message for turn in record["question"] for message in turn])
            functions, expected = record["function"], record["ground_truth"]
            check_documented(functions, expected, place)
            return Sample(
                suite=self.name,
                id=record["id"],
                messages=messages,
                tools=parse_tools(as_tools(functions)),
                query="\n".join(text for one in messages if one.role == "user" for text in one.texts()),
                gold=expected,
                max_tokens=self.max_tokens,
                details={"functions": functions},
            )
        except (AttributeError, KeyError, TypeError) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
            raise ConfigurationError(f"{place} is no record of BFCL: {reason}") from error

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        """The official verdict on the calls; `details` say what is wrong and where the calls stood."""
        read = read_calls(output, sample.tools)
        verdict = check_calls(sample.details["functions"], read.calls, sample.gold)
        anywhere = read_calls_anywhere(output, sample.tools)
        any_form = check_calls(sample.details["functions"], anywhere.calls, sample.gold)
        return Score(
            values={"accuracy": float(verdict.is_right), "accuracy_any_form": float(any_form.is_right)},
            details={
                "error": verdict.error,
                "parameter": verdict.parameter,
                "read_from": anywhere.read_from,
                "num_calls": len(anywhere.calls),
            },
        )


class BfclSimple(_Bfcl):
    """One function, one call."""

    name = "bfcl_simple"
    title = "BFCL simple (Python)"
    category = "simple_python"
    source = _SOURCE.format("400")


class BfclMultiple(_Bfcl):
    """Two to four functions, one call."""

    name = "bfcl_multiple"
    title = "BFCL multiple"
    category = "multiple"
    source = _SOURCE.format("200")


class BfclParallel(_Bfcl):
    """One function, several calls; their order does not matter."""

    name = "bfcl_parallel"
    title = "BFCL parallel"
    category = "parallel"
    max_tokens = 1024
    source = _SOURCE.format("200")
