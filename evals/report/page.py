"""The report as one HTML page that needs nothing beside it: no network, no fonts, no other files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..run_folder import Run
from .drill import MAX_BYTES, drill_down
from .indexed import Indexed
from .planned import beside, provenance_of
from .plots import Plot, forest_plot, section_plots, sweep_plot
from .results import Section, SuiteResult
from .safe import clipped, safe
from .sweeps import floor_of
from .table import Column, Table
from .tables import cost_table, figure_table, group_table, result_table, sweep_table
from .texts import RULES, section_title

__all__ = ["MAX_PLOTTED_SECTIONS", "html_report"]

MAX_PLOTTED_SECTIONS = 12
_HERE = Path(__file__).parent


def html_report(run: Run, suites: Sequence[tuple[Indexed, SuiteResult]]) -> str:
    """The page of a run."""
    results = [result for _, result in suites]
    forest = forest_plot(results, "forest")
    links = "".join(
        f'<li><a href="#suite-{i}">{safe(suite.title)}</a></li>' for i, suite in enumerate(results)
    )
    body = "".join(
        _suite(run, data, result, number, MAX_BYTES // len(suites))
        for number, (data, result) in enumerate(suites)
    )
    rules = "".join(f"<li>{safe(rule)}</li>" for rule in RULES)
    style, script = ((_HERE / f"page.{kind}").read_text("utf-8") for kind in ("css", "js"))
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Evaluation</title><style>{style}</style></head><body><main><h1>Evaluation</h1>"
        f"<nav><ul>{links}</ul></nav>{_figure(forest) if forest is not None else ''}{body}"
        f"<h2>How to read this</h2><ul>{rules}</ul></main><script>{script}</script></body></html>\n"
    )


def _suite(run: Run, data: Indexed, suite: SuiteResult, number: int, max_bytes: int) -> str:
    clusters = "" if suite.num_clusters is None else f" in {suite.num_clusters} clusters"
    parts = [
        f'<h2 id="suite-{number}">{safe(suite.title)}</h2>',
        f"<p>Metric: {safe(suite.metric)}. {suite.num_samples} samples{clusters}.</p>",
        *(f'<p class="note">{safe(note)}</p>' for note in suite.notes),
    ]
    facts = provenance_of(run.plan, suite.name)
    origin = f'<p class="soft">{safe(beside(facts))}</p>'
    for place, section in enumerate(suite.sections):
        parts.append(_section(suite, section, f"p{number}-{place}-", place < MAX_PLOTTED_SECTIONS))
        parts.append(origin)
    for place, sweep in enumerate(suite.sweeps):
        parts.append(f"<h3>Sweep: {safe(sweep.name)}, {safe(sweep.arm)}</h3>")
        if sweep.statement:
            parts.append(f'<p class="says">{safe(sweep.statement)}</p>')
        if place < MAX_PLOTTED_SECTIONS:
            parts.append(_figure(sweep_plot(sweep, suite, f"s{number}-{place}")))
        parts += [_table(sweep_table(sweep)), origin]
    entries = "".join(
        f"<dt>{safe(name)}</dt><dd>{safe(clipped(text, 2_000))}</dd>" for name, text in facts.items()
    )
    parts.append(f'<details><summary>Provenance</summary><dl class="facts">{entries}</dl></details>')
    main = suite.sections[0].main
    parts.append(drill_down(run, data, suite, main, floor_of(data, suite.sections[0].view), max_bytes))
    return "".join(parts)


def _section(suite: SuiteResult, section: Section, name: str, is_plotted: bool) -> str:
    parts = [
        f"<h3>{safe(section_title(section))}</h3>",
        _table(result_table(suite, section)),
        _table(cost_table(section)),
    ]
    if is_plotted:
        parts += [_figure(plot) for plot in section_plots(section, name)]
    official = figure_table(section)
    if official is not None:
        parts.append(f"<details><summary>Official subtotals</summary>{_table(official)}</details>")
    for group in section.groups:
        left = (
            f'<p class="soft">{group.num_left_out} smaller values are not shown.</p>'
            if group.num_left_out
            else ""
        )
        parts.append(
            f"<details><summary>By {safe(group.name)}</summary>{_table(group_table(group))}{left}</details>"
        )
    return "".join(parts)


def _figure(plot: Plot) -> str:
    return (
        f'<figure><div class="scroll">{plot.svg}</div><figcaption>{safe(plot.caption)}</figcaption></figure>'
    )


def _table(table: Table) -> str:
    heads = "".join(
        f'<th scope="col"{_kind(column)} title="{safe(column.meaning)}">{safe(column.heading)}</th>'
        for column in table.columns
    )
    rows = []
    for number, row in enumerate(table.rows):
        entries = []
        for column, entry in zip(table.columns, row, strict=True):
            small = "".join(f"<small>{safe(line)}</small>" for line in entry.small.splitlines())
            entries.append(f"<td{_kind(column)}>{safe(entry.text)}{small}</td>")
        mark = ' class="marked"' if number in table.marked else ""
        rows.append(f"<tr{mark}>{''.join(entries)}</tr>")
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{safe(table.caption)}"><table>'
        f"<caption>{safe(table.caption)}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _kind(column: Column) -> str:
    return ' class="number"' if column.is_number else ""
