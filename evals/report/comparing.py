"""Two runs side by side: the same samples and cells paired, other provenance, answers that changed."""

from __future__ import annotations

from pathlib import Path

from asymspec_agents.errors import ConfigurationError

from ..run_folder import read_run
from ..statistics import compare_pairs
from .analysis import RESCORING, indexed_suites
from .indexed import Indexed, shows_texts
from .planned import provenance_of
from .safe import clipped
from .table import Column, Entry, Table, markdown_table, markdown_text
from .wording import bounds, p_value, points, seconds, signed

__all__ = ["MAX_CHANGES", "compare"]

MAX_CHANGES = 40
"""Changed answers shown of a suite."""

_COLUMNS = (
    Column("arm", is_number=False),
    Column("n"),
    Column("left"),
    Column("right"),
    Column("right − left"),
    Column("won–lost–tied"),
    Column("answers changed"),
    Column("seconds a sample"),
)


def compare(left: Path, right: Path) -> str:
    """Markdown that compares two runs, over the samples and cells that both have.

    Raises ConfigurationError where a folder holds no run, or the runs share no sample of a cell.
    """
    runs = [read_run(folder) for folder in (left, right)]
    sides = [{data.name: data for data in indexed_suites(run)} for run in runs]
    parts = ["# Comparison\n", f"Left: {markdown_text(left.name)}. Right: {markdown_text(right.name)}.\n"]
    pairs = [(sides[0][name], sides[1][name]) for name in sides[0] if name in sides[1]]
    bodies = [body for body in (_suite(*pair) for pair in pairs) if body]
    if not bodies:
        raise ConfigurationError(f"{left} and {right} share no sample of a suite and cell")
    for name in dict.fromkeys((*sides[0], *sides[1])):
        facts = [provenance_of(run.plan, name) if name in run.plan.suites else {} for run in runs]
        rows = tuple(
            (
                Entry(fact),
                Entry(clipped(facts[0].get(fact, "–"), 200)),
                Entry(clipped(facts[1].get(fact, "–"), 200)),
            )
            for fact in dict.fromkeys((*facts[0], *facts[1]))
            if facts[0].get(fact) != facts[1].get(fact)
        )
        columns = tuple(Column(text, is_number=False) for text in ("what differs", "left", "right"))
        if rows:
            parts += [f"## Provenance: {markdown_text(name)}\n", markdown_table(Table("", columns, rows))]
        if not all(name in side for side in sides):
            parts.append(f"Only one run has records of {markdown_text(name)}.\n")
    parts += [
        f"{side}, {markdown_text(name)}: {RESCORING}\n"
        for side, run in zip(("Left", "Right"), runs, strict=True)
        for name in run.plan.rescoring
    ]
    parts += bodies
    return "\n".join(parts)


def _suite(left: Indexed, right: Indexed) -> str:
    cells = [cell for cell in left.cells if cell in right.cells]
    rows, changes = [], []
    for cell in cells:
        common = [s for s in left.samples if s in left.cells[cell] and s in right.cells[cell]]
        if not common:
            continue
        before, after = left.column(cell, common), right.column(cell, common)
        is_binary = left.is_binary and right.is_binary
        test = compare_pairs(after, before, clusters=left.clusters(common), is_binary=is_binary)
        changed = [s for s in common if _answer(left, cell, s) != _answer(right, cell, s)]
        changes += [(cell, sample) for sample in changed]
        rows.append(
            (
                Entry(cell),
                Entry(str(len(common))),
                Entry(points(sum(before) / len(common))),
                Entry(points(sum(after) / len(common))),
                Entry(
                    signed(test.difference.value),
                    ", ".join(t for t in (bounds(test.difference, sign=True), p_value(test.p_value)) if t),
                ),
                Entry(f"{test.num_wins}–{test.num_losses}–{test.num_ties}"),
                Entry(str(len(changed))),
                Entry(f"{_elapsed(left, cell, common)} → {_elapsed(right, cell, common)}"),
            )
        )
    if not rows:
        return ""
    only = [
        f"Only the {side} run has {markdown_text(cell)}.\n"
        for side, mine, other in (("left", left, right), ("right", right, left))
        for cell in mine.cells
        if cell not in other.cells
    ]
    title = left.suite.title if left.suite is not None else left.name
    return "\n".join(
        [
            f"## {markdown_text(title)}\n",
            markdown_table(Table("", _COLUMNS, tuple(rows))),
            *only,
            _changes(left, right, changes),
        ]
    )


def _changes(left: Indexed, right: Indexed, changes: list[tuple[str, str]]) -> str:
    if not changes:
        return "No answer changed.\n"
    changes.sort(key=lambda c: -abs(left.values[c[0]][c[1]] - right.values[c[0]][c[1]]))
    is_open = shows_texts(left) and shows_texts(right)
    columns = [Column(text, is_number=False) for text in ("sample", "arm")]
    columns += [Column("left"), Column("right")]
    if is_open:
        columns += [Column(text, is_number=False) for text in ("left's answer", "right's answer")]
    rows = []
    for cell, sample in changes[:MAX_CHANGES]:
        row = [
            Entry(sample),
            Entry(cell),
            *(Entry(points(side.values[cell][sample])) for side in (left, right)),
        ]
        if is_open:
            row += [Entry(clipped(_shown(side, cell, sample), 160)) for side in (left, right)]
        rows.append(tuple(row))
    head = f"{len(changes)} answers changed"
    head += (
        f"; the {MAX_CHANGES} with the largest change of score:\n" if len(changes) > MAX_CHANGES else ":\n"
    )
    return f"{head}\n{markdown_table(Table('', tuple(columns), tuple(rows)))}"


def _answer(data: Indexed, cell: str, sample: str) -> tuple[str, str] | None:
    """What a cell answered, with its calls of tools; None where it failed."""
    output = data.cells[cell][sample].output
    return None if output is None else (output.answer, repr(output.tool_calls))


def _shown(data: Indexed, cell: str, sample: str) -> str:
    output = data.cells[cell][sample].output
    if output is None:
        return "(failed)"
    return output.answer or (repr(output.tool_calls) if output.tool_calls else "(empty)")


def _elapsed(data: Indexed, cell: str, samples: list[str]) -> str:
    known = [cost.elapsed_s for s in samples for cost in [data.costs[cell][s]] if cost is not None]
    return seconds(sum(known) / len(known) if known else None)
