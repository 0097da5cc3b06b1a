"""MultiChallenge's verdicts: read out of a judge's reply, and their mean over the axes.

Source: ekwinox117/multi-challenge, src/evaluator.py and src/result_parser.py (arXiv 2501.17399). One of its
slips is left out: there an exception of the judge becomes an axis "NA" that enters the mean.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any, Literal

__all__ = ["AXES", "Verdict", "axis_means", "read_verdict"]

Verdict = Literal["YES", "NO"]

AXES = ("INFERENCE_MEMORY", "INSTRUCTION_RETENTION", "RELIABLE_VERSION_EDITING", "SELF_COHERENCE")

_LAST_LINE = re.compile(r"(?:verdict\W*)?(YES|NO)\W*", re.IGNORECASE)


def read_verdict(reply: str) -> Verdict | None:
    """The verdict of the reply's last JSON object with one; else of a last line that is a verdict only.

    None where there is neither: words of a reasoning are never read as a verdict.
    """
    found = [item["verdict"] for item in _objects(reply) if "verdict" in item]
    if found:
        verdict = found[-1].strip().upper() if isinstance(found[-1], str) else ""
        return "YES" if verdict == "YES" else "NO" if verdict == "NO" else None
    lines = reply.strip().splitlines()
    match = _LAST_LINE.fullmatch(lines[-1].strip(" *_`#\"'")) if lines else None
    return None if match is None else "YES" if match.group(1).upper() == "YES" else "NO"


def axis_means(passed: Iterable[tuple[str, float]]) -> dict[str, float]:
    """The share passed of each axis, in [0, 1], by its name; the official score is their plain mean."""
    by_axis: defaultdict[str, list[float]] = defaultdict(list)
    for axis, value in passed:
        by_axis[axis].append(value)
    return {axis: sum(values) / len(values) for axis, values in sorted(by_axis.items())}


def _objects(text: str) -> Iterable[dict[str, Any]]:
    """The JSON objects that stand in a text, whatever is around them."""
    decoder = json.JSONDecoder(strict=False)
    start = text.find("{")
    while start >= 0:
        try:
            value, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        else:
            if isinstance(value, dict):
                yield value
        start = text.find("{", end)
