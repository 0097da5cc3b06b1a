"""The plots of a suite and of the run, each as inline SVG with a caption."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..statistics import Estimate
from .results import CellResult, Section, SuiteResult, Sweep
from .svg import MARKERS, STYLES, drawing, label, series_colour, svg_of
from .tables import arm_of

__all__ = ["MAX_SERIES", "Plot", "forest_plot", "section_plots", "sweep_plot"]

MAX_SERIES = 12
_FIXED = {"floor": 0, "drafter": 1, "asymspec": 2, "ceiling": 3}
_SIZES = {"tokens": "view, tokens", "share": "view, share of the full one"}


@dataclass(frozen=True, slots=True)
class Plot:
    """An SVG and what it shows."""

    svg: str
    caption: str


def section_plots(section: Section, name: str) -> tuple[Plot, ...]:
    """Score against FLOPs, and acceptance by place in the block, of the arms on one view."""
    plots = (_score_against_flops(section, f"{name}f"), _acceptance(section, f"{name}a"))
    return tuple(plot for plot in plots if plot is not None)


def forest_plot(suites: Sequence[SuiteResult], name: str) -> Plot | None:
    """The recovered share of the main arm, by suite and view; a share without bounds is drawn without."""
    found: list[tuple[str, Estimate]] = []
    for suite in suites:
        for section in suite.sections:
            row = next((row for row in section.rows if row.cell == section.main), None)
            if row is not None and row.recovered is not None and row.recovered.share is not None:
                where = suite.title if section.view is None else f"{suite.title}, {section.view}"
                found.append((where, row.recovered.share))
    if not found:
        return None
    found = found[:40]
    with drawing(7.0, 1.1 + 0.34 * len(found)) as figure:
        axes = figure.add_subplot()
        for place, (_, share) in enumerate(found):
            value = 100 * share.value
            low, high = (_finite(bound) for bound in (share.low, share.high))
            if low is not None and high is not None:
                axes.plot([low, high], [place, place], color=series_colour(2), linewidth=2)
            axes.plot([value], [place], marker="o", color=series_colour(2), linestyle="none")
        axes.axvline(0, color="#010101", linewidth=1)
        axes.axvline(100, color="#010101", linewidth=1, linestyle="--")
        axes.set_yticks(range(len(found)), [label(where, 44) for where, _ in found])
        axes.set_ylim(len(found) - 0.5, -0.5)
        _limit(axes, [100 * share.value for _, share in found])
        axes.set_xlabel("recovered share of the Floor–Ceiling gap, %")
        svg = svg_of(figure, name, "Recovered share by suite and view")
    return Plot(
        svg,
        "Recovered share of the Floor–Ceiling gap with 95 % intervals; 0 is Floor, the dashed line Ceiling. "
        "A point without a line has an unbounded interval.",
    )


def sweep_plot(sweep: Sweep, suite: SuiteResult, name: str) -> Plot:
    """Score and recovered share along a sweep, between Floor and Ceiling."""
    is_size = sweep.over in _SIZES
    xs = [point.x for point in sweep.points]
    with drawing(8.4, 3.4) as figure:
        scores, shares = figure.subplots(1, 2)
        _line(scores, xs, [point.mean for point in sweep.points], 2, sweep.arm)
        floors = [(point.x, point.floor) for point in sweep.points if point.floor is not None]
        if is_size and floors:
            _line(scores, [x for x, _ in floors], [floor for _, floor in floors], 0, "floor")
        for number, cell in (
            (1, "drafter"),
            (3, "ceiling"),
            *(() if is_size else ((0, _floor_name(sweep)),)),
        ):
            row = _row(suite, cell)
            if row is not None:
                scores.axhline(
                    100 * row.mean.value,
                    color=series_colour(number),
                    linestyle=STYLES[number],
                    label="floor" if number == 0 else cell,
                )
        recovered = [(p.x, p.recovered.share) for p in sweep.points if p.recovered and p.recovered.share]
        _line(shares, [x for x, _ in recovered], [share for _, share in recovered], 2, sweep.arm)
        shares.axhline(0, color="#010101", linewidth=1)
        shares.axhline(100, color="#010101", linewidth=1, linestyle="--")
        _limit(shares, [100 * share.value for _, share in recovered], is_y=True)
        for axes, ylabel in ((scores, f"{suite.metric} × 100"), (shares, "recovered share, %")):
            axes.set_xlabel(_SIZES.get(sweep.over, sweep.over))
            axes.set_ylabel(label(ylabel))
            if is_size:
                axes.set_xscale("log", base=2)
            axes.set_xticks(xs, [f"{x:g}" for x in xs])
            axes.minorticks_off()
        scores.legend(fontsize=9)
        title = f"{sweep.name}, {sweep.arm}"
        svg = svg_of(figure, name, title)
    return Plot(svg, f"{title}: score and recovered share. Bars are 95 % intervals.")


def _score_against_flops(section: Section, name: str) -> Plot | None:
    known = [(row, row.costs.total_flops) for row in section.rows if row.mean.num]
    rows = [(row, flops) for row, flops in known if flops is not None]
    if len(rows) < 2:
        return None
    with drawing(7.0, 3.9) as figure:
        axes = figure.add_subplot()
        shown = rows[:MAX_SERIES]
        for number, (row, flops) in zip(_series([row for row, _ in shown]), shown, strict=True):
            axes.errorbar(
                [flops.value],
                [100 * row.mean.value],
                yerr=_errors([row.mean]),
                marker=MARKERS[number % len(MARKERS)],
                markersize=9 if row.cell == section.main else 6,
                color=series_colour(number),
                linestyle="none",
                linewidth=1,
                label=label(arm_of(row.cell)),
            )
        axes.set_xlim(left=0)
        axes.set_xlabel("all FLOPs, relative to Ceiling")
        axes.set_ylabel("score × 100")
        axes.legend(fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
        svg = svg_of(figure, name, "Score against FLOPs")
    return Plot(svg, "Score against all FLOPs relative to Ceiling; up and left is better." + _left(len(rows)))


def _acceptance(section: Section, name: str) -> Plot | None:
    rows = [row for row in section.rows if row.costs.acceptance_per_position]
    if not rows:
        return None
    shown = rows[:MAX_SERIES]
    longest = max(len(row.costs.acceptance_per_position) for row in shown)
    with drawing(7.0, 3.2) as figure:
        axes = figure.add_subplot()
        for number, row in zip(_series(shown), shown, strict=True):
            shares = [100 * share for share in row.costs.acceptance_per_position]
            axes.plot(
                range(1, len(shares) + 1),
                shares,
                marker=MARKERS[number % len(MARKERS)],
                linestyle=STYLES[number % len(STYLES)],
                color=series_colour(number),
                label=label(arm_of(row.cell)),
            )
        axes.set_xticks(range(1, longest + 1))
        axes.set_ylim(0, 103)
        axes.set_xlabel("place in the block")
        axes.set_ylabel("accepted, %")
        axes.legend(fontsize=9, loc="center left", bbox_to_anchor=(1, 0.5))
        svg = svg_of(figure, name, "Acceptance by place in the block")
    return Plot(svg, "Drafted tokens accepted, by their place in the block." + _left(len(rows)))


def _series(rows: Sequence[CellResult]) -> list[int]:
    """A number for colour and marker of each row: the arms of every table always have the same."""
    others = itertools.count(len(_FIXED))
    arms = [arm_of(row.cell) for row in rows]
    return [_FIXED[arm] if arm in _FIXED else next(others) for arm in arms]


def _left(num_rows: int) -> str:
    num = num_rows - MAX_SERIES
    return f" {num} further arms are in the tables only." if num > 0 else ""


def _line(axes: Any, xs: Sequence[float], estimates: Sequence[Estimate], number: int, name: str) -> None:
    axes.errorbar(
        xs,
        [100 * estimate.value for estimate in estimates],
        yerr=_errors(estimates),
        marker=MARKERS[number],
        linestyle=STYLES[number % len(STYLES)],
        color=series_colour(number),
        capsize=3,
        label=label(name),
    )


def _errors(estimates: Sequence[Estimate]) -> list[list[float]]:
    """Distances to the bounds; none where a bound is missing or infinite."""
    bars: list[list[float]] = [[], []]
    for estimate in estimates:
        low, high = _finite(estimate.low), _finite(estimate.high)
        bars[0].append(0.0 if low is None else max(0.0, 100 * estimate.value - low))
        bars[1].append(0.0 if high is None else max(0.0, high - 100 * estimate.value))
    return bars


def _finite(bound: float | None) -> float | None:
    return None if bound is None or not math.isfinite(bound) else 100 * bound


def _limit(axes: Any, values: Sequence[float], *, is_y: bool = False) -> None:
    """Keeps wide intervals from pressing the rest together: what is far outside is cut at the frame."""
    low, high = min([-50.0, *(v - 50 for v in values)]), max([150.0, *(v + 50 for v in values)])
    (axes.set_ylim if is_y else axes.set_xlim)(max(low, -400.0), min(high, 500.0))


def _floor_name(sweep: Sweep) -> str:
    view = sweep.points[0].cell.partition(" on ")[2]
    return f"floor on {view}" if view else "floor"


def _row(suite: SuiteResult, cell: str) -> CellResult | None:
    return next((row for section in suite.sections for row in section.rows if row.cell == cell), None)
