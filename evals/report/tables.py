"""The tables of a report: results, costs, groups, sweeps."""

from __future__ import annotations

from collections.abc import Mapping

from ..statistics import Estimate, PairedTest, RecoveredShare
from .results import CellResult, GroupResult, Section, SuiteResult, Sweep
from .table import Column, Entry, Table
from .wording import bounds, count, p_value, points, ratio, seconds, signed, size

__all__ = [
    "arm_of",
    "cost_table",
    "figure_table",
    "group_table",
    "mean_entry",
    "result_table",
    "share_entry",
    "sweep_table",
]

_RESULTS = (
    Column("arm", "who decodes how, on which view", is_number=False),
    Column(
        "n", "samples answered or failed; failed ones, and ones that the judge failed to grade, count as 0"
    ),
    Column("score", "mean × 100 with its 95 % interval; failures count as 0"),
    Column("official", "the suite's own aggregate, in its unit"),
    Column("vs Floor", "paired difference in points"),
    Column("won–lost–tied", "samples above, below and like Floor"),
    Column("vs drafter", "paired difference to the drafter alone, in points"),
    Column("vs Ceiling", "paired difference in points"),
    Column("recovered", "share of the Floor–Ceiling gap, in %"),
    Column("same text", "texts equal to Ceiling's, in % (the no-harm control)"),
)
_COSTS = (
    Column("arm", "who decodes how, on which view", is_number=False),
    Column("accepted", "accepted of drafted tokens, in %; by place in the block"),
    Column("tokens a block", "tokens emitted a block"),
    Column("JSD", "mean divergence of the drafter's two passes, in nats"),
    Column("view", "compressed over full tokens, in %; mean tokens"),
    Column("prefill FLOPs", "relative to Ceiling"),
    Column("all FLOPs", "relative to Ceiling"),
    Column("wall-clock", "relative to Ceiling; seconds a sample"),
    Column("first token", "mean time to the first token of a call"),
    Column("compressor", "time to make the views of a sample"),
    Column("peak memory", "highest of any sample"),
    Column("computed", "tokens computed a sample: verifier / base / drafter"),
    Column("reused", "tokens from caches a sample: verifier / base / drafter"),
)
_NONE = Entry("–")


def result_table(suite: SuiteResult, section: Section) -> Table:
    """Arms against Floor and Ceiling on one view."""
    rows = tuple(_result_row(row) for row in section.rows)
    marked = frozenset(i for i, row in enumerate(section.rows) if row.cell == section.main)
    caption = f"{suite.title}: {suite.metric}"
    return Table(caption, _RESULTS, rows, marked).without_empty_columns()


def cost_table(section: Section) -> Table:
    """What the arms on one view cost."""
    rows = tuple(_cost_row(row) for row in section.rows)
    marked = frozenset(i for i, row in enumerate(section.rows) if row.cell == section.main)
    return Table("Costs", _COSTS, rows, marked).without_empty_columns()


def figure_table(section: Section) -> Table | None:
    """The subtotals of official figures, in the suite's unit; None where there are none."""
    parts = {row.cell: dict(row.figure.parts) for row in section.rows if row.figure is not None}
    names = tuple(dict.fromkeys(name for by_name in parts.values() for name in by_name))
    if not names:
        return None
    columns = (Column("arm", is_number=False), *(Column(name) for name in names))
    rows = tuple(
        (
            Entry(arm_of(cell)),
            *(Entry(f"{by_name[name]:.2f}") if name in by_name else _NONE for name in names),
        )
        for cell, by_name in parts.items()
    )
    return Table("Official subtotals", columns, rows)


def group_table(group: GroupResult) -> Table:
    """Means of the main arms by the values of a group."""
    cells = tuple(dict.fromkeys(cell for row in group.rows for cell in row.means))
    columns = (
        Column(group.name, "", is_number=False),
        Column("n"),
        *(Column(arm_of(cell)) for cell in cells),
        Column("vs Floor", "AsymSpec's paired difference in points"),
    )
    rows = tuple(
        (
            Entry(row.value),
            Entry(str(row.num)),
            *(mean_entry(row.means[cell]) if cell in row.means else _NONE for cell in cells),
            _difference(row.to_floor),
        )
        for row in group.rows
    )
    return Table(f"By {group.name}", columns, rows).without_empty_columns()


def sweep_table(sweep: Sweep) -> Table:
    """The points of a sweep."""
    columns = (
        Column(sweep.over),
        Column("view tokens", "mean size of the compressed view"),
        Column("Floor"),
        Column(sweep.arm),
        Column("recovered", "share of the Floor–Ceiling gap, in %"),
    )
    rows = tuple(
        (
            Entry(f"{point.x:g}"),
            Entry(count(point.view_tokens)),
            mean_entry(point.floor) if point.floor is not None else _NONE,
            mean_entry(point.mean),
            share_entry(point.recovered),
        )
        for point in sweep.points
    )
    return Table(sweep.name, columns, rows).without_empty_columns()


def arm_of(cell: str) -> str:
    """The arm of a cell, for where the view is told beside it."""
    return cell.partition(" on ")[0]


def mean_entry(estimate: Estimate) -> Entry:
    """A mean in points."""
    return Entry(points(estimate.value) if estimate.num else "–", bounds(estimate))


def share_entry(share: RecoveredShare | None) -> Entry:
    """A recovered share in %."""
    if share is None:
        return _NONE
    if share.share is None:
        return Entry("undefined", "no gap")
    if share.status == "unbounded":
        return Entry(f"{points(share.share.value)}", "unbounded:\nno sure gap")
    return Entry(points(share.share.value), bounds(share.share))


def _difference(test: PairedTest | None) -> Entry:
    if test is None:
        return _NONE
    p = p_value(test.p_value)
    small = bounds(test.difference, sign=True)
    return Entry(signed(test.difference.value), "\n".join(part for part in (small, p) if part))


def _result_row(row: CellResult) -> tuple[Entry, ...]:
    beside = (
        f"of {row.num + row.num_missing}" if row.num_missing else "",
        f"{row.num_failed} failed" if row.num_failed else "",
        f"{row.num_judge_failed} not judged" if row.num_judge_failed else "",
    )
    n = Entry(str(row.num), "\n".join(part for part in beside if part))
    test = row.to_floor
    return (
        Entry(arm_of(row.cell)),
        n,
        mean_entry(row.mean),
        _official(row),
        _difference(row.to_floor),
        Entry(f"{test.num_wins}–{test.num_losses}–{test.num_ties}") if test else _NONE,
        _difference(row.to_drafter),
        _difference(row.to_ceiling),
        share_entry(row.recovered),
        mean_entry(row.same_text) if row.same_text is not None else _NONE,
    )


def _official(row: CellResult) -> Entry:
    if row.figure is None:
        return _NONE
    return Entry(f"{row.figure.estimate.value:.2f}", bounds(row.figure.estimate, 1, 2))


def _cost_row(row: CellResult) -> tuple[Entry, ...]:
    costs = row.costs
    positions = " / ".join(points(share) for share in costs.acceptance_per_position)
    return (
        Entry(arm_of(row.cell)),
        Entry(points(costs.acceptance), positions) if costs.acceptance is not None else _NONE,
        Entry(f"{costs.tokens_per_block:.2f}") if costs.tokens_per_block is not None else _NONE,
        Entry(f"{costs.mean_divergence:.3f}") if costs.mean_divergence is not None else _NONE,
        Entry(points(costs.view_ratio), f"{count(costs.view_tokens)} tokens")
        if costs.view_ratio is not None
        else _NONE,
        _relative(costs.prefill_flops),
        _relative(costs.total_flops),
        _relative(costs.wall_clock, seconds(costs.elapsed_s)),
        Entry(seconds(costs.time_to_first_token_s)),
        Entry(seconds(costs.compress_s)) if costs.compress_s else _NONE,
        Entry(size(costs.peak_memory_bytes)),
        Entry(_by_reader(costs.computed_tokens)) if costs.computed_tokens is not None else _NONE,
        Entry(_by_reader(costs.cached_tokens)) if any(costs.cached_tokens.values()) else _NONE,
    )


def _relative(estimate: Estimate | None, also: str = "") -> Entry:
    if estimate is None:
        return Entry("–", also)
    interval = bounds(estimate, 1, 2) if estimate.has_interval else ""
    return Entry(ratio(estimate.value), "\n".join(part for part in (interval, also) if part))


def _by_reader(tokens: Mapping[str, float]) -> str:
    return " / ".join(f"{tokens[role]:,.0f}" for role in ("verifier", "base", "drafter"))
