"""The report as Markdown: tables, sweeps and provenance, without plots and samples."""

from __future__ import annotations

from collections.abc import Sequence

from ..plan import Plan
from .planned import beside, provenance_of
from .results import SuiteResult
from .table import markdown_table, markdown_text
from .tables import cost_table, figure_table, group_table, result_table, sweep_table
from .texts import RULES, section_title

__all__ = ["markdown_report"]


def markdown_report(plan: Plan, suites: Sequence[SuiteResult]) -> str:
    """The whole report of a run."""
    parts = ["# Evaluation\n"]
    for suite in suites:
        facts = provenance_of(plan, suite.name)
        parts.append(_suite(suite, f"<sub>{markdown_text(beside(facts))}</sub>\n"))
        lines = [f"- {markdown_text(name)}: {markdown_text(value)}" for name, value in facts.items()]
        parts.append("### Provenance\n\n" + "\n".join(lines) + "\n")
    parts.append("## How to read this\n\n" + "\n".join(f"- {rule}" for rule in RULES) + "\n")
    return "\n".join(parts)


def _suite(suite: SuiteResult, origin: str) -> str:
    parts = [f"## {markdown_text(suite.title)}\n"]
    clusters = "" if suite.num_clusters is None else f" in {suite.num_clusters} clusters"
    parts.append(f"Metric: {markdown_text(suite.metric)}. {suite.num_samples} samples{clusters}.\n")
    parts += [f"> {markdown_text(note)}\n" for note in suite.notes]
    for section in suite.sections:
        parts.append(f"### {markdown_text(section_title(section))}\n")
        parts.append(markdown_table(result_table(suite, section)))
        parts += [markdown_table(cost_table(section)), origin]
        official = figure_table(section)
        if official is not None:
            parts.append(f"{official.caption}:\n")
            parts.append(markdown_table(official))
        for group in section.groups:
            parts.append(f"By {markdown_text(group.name)}:\n")
            parts.append(markdown_table(group_table(group)))
            if group.num_left_out:
                parts.append(f"{group.num_left_out} smaller values are not shown.\n")
    for sweep in suite.sweeps:
        parts.append(f"### Sweep: {markdown_text(sweep.name)}, {markdown_text(sweep.arm)}\n")
        if sweep.statement:
            parts.append(f"{markdown_text(sweep.statement)}\n")
        parts += [markdown_table(sweep_table(sweep)), origin]
    return "\n".join(parts)
