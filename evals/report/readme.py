"""The results table of a README, from the `summary.json` files of committed runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError

from .summary import FORMAT
from .table import markdown_text
from .wording import points, ratio

__all__ = ["results_table"]

_HEADINGS = (
    "suite, view",
    "n",
    "Floor",
    "drafter alone",
    "AsymSpec",
    "Ceiling",
    "recovered, %",
    "vs Floor",
    "identical views",
    "prefill FLOPs",
    "wall-clock",
)


def results_table(summaries: Sequence[Path]) -> str:
    """A Markdown table: a row for each suite and view of each file, points with 95 % intervals.

    The AsymSpec column is the default arm. Raises ConfigurationError where a file is no summary.
    """
    lines = ["| " + " | ".join(_HEADINGS) + " |", "| --- |" + " ---: |" * (len(_HEADINGS) - 1)]
    for path in summaries:
        lines += [_row(suite, section) for suite in _suites(path) for section in suite["sections"]]
    return "\n".join(lines) + "\n"


def _suites(path: Path) -> list[dict[str, Any]]:
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} is no summary of a report: {error}") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ConfigurationError(f"{path} is no summary of format {FORMAT}; make it with the command report")
    suites = content.get("suites")
    if not isinstance(suites, list):  # a run.json has suites too, by name
        raise ConfigurationError(f"{path} is no summary of a report; that is the summary.json of report")
    return suites


def _row(suite: Mapping[str, Any], section: Mapping[str, Any]) -> str:
    rows = {row["cell"]: row for row in section["rows"]}
    view = section["view"]
    floor, drafter = rows.get(f"floor on {view}"), rows.get("drafter")
    ceiling, control = rows.get("ceiling"), rows.get("identical")
    main = rows.get(section["main"] or "")
    name = suite["title"] if view is None else f"{suite['title']}, {view}"
    costs = main["costs"] if main else {}
    # Asked several at once, answers wait for each other: their seconds compare nothing.
    is_one_by_one = suite["provenance"].get("num_parallel", "1") == "1"
    texts = [
        name,
        str((main or ceiling or floor or {}).get("num", "")),
        *(_mean(row) for row in (floor, drafter, main, ceiling)),
        _recovered(main),
        _gain(main),
        _control(control),
        _ratio(costs.get("prefill_flops")),
        _ratio(costs.get("wall_clock")) if is_one_by_one else "–",
    ]
    return "| " + " | ".join(markdown_text(text) for text in texts) + " |"


def _mean(row: Mapping[str, Any] | None) -> str:
    return "–" if row is None else _estimate(row["mean"])


def _recovered(row: Mapping[str, Any] | None) -> str:
    share = row["recovered"] if row is not None else None
    if share is None:
        return "–"
    estimate: Mapping[str, Any] = share["share"]
    return _estimate(estimate) if share["status"] == "ok" else str(share["status"])


def _gain(row: Mapping[str, Any] | None) -> str:
    test = row["to_floor"] if row is not None else None
    return "–" if test is None else _estimate(test["difference"], signed=True)


def _control(row: Mapping[str, Any] | None) -> str:
    if row is None or row["same_text"] is None:
        return "–"
    return f"{points(row['same_text']['value'])} % like Ceiling"


def _ratio(estimate: Mapping[str, Any] | None) -> str:
    return "–" if estimate is None else ratio(float(estimate["value"]))


def _estimate(estimate: Mapping[str, Any], *, signed: bool = False) -> str:
    sign = "+" if signed and estimate["value"] > 0 else ""
    value = f"{sign}{points(estimate['value'])}"
    if estimate["low"] is None:
        return f"{value} {estimate['note']}".strip()
    return f"{value} [{points(float(estimate['low']))}, {points(float(estimate['high']))}]"
