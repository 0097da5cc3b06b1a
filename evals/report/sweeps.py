"""Runs over several sizes of a view, or several values of an option; and what they say in a sentence."""

from __future__ import annotations

from collections.abc import Mapping

from ..cells import ArmSpec, Cell
from ..statistics import Estimate, Trend, severity_trend
from .cells import mean_of, share_of
from .indexed import Indexed
from .results import Sweep, SweepPoint
from .wording import points_interval

__all__ = ["floor_of", "named_cell", "sweeps_of"]

_NO_SWEEP = ("floor", "symmetric_compressed")


def named_cell(data: Indexed, arm: str, view: str | None) -> str | None:
    """The cell of an arm without options on a view, where the run has it."""
    wanted = str(Cell.parse(arm if view is None else f"{arm} on {view}"))
    return wanted if wanted in data.cells else None


def floor_of(data: Indexed, view: str | None) -> str | None:
    """The Floor on a view."""
    return None if view is None else named_cell(data, "floor", view)


def sweeps_of(data: Indexed) -> tuple[Sweep, ...]:
    """All sweeps of the run: by size of the view first, then by option."""
    return (*_by_size(data), *_by_option(data))


def _by_size(data: Indexed) -> list[Sweep]:
    families: dict[tuple[str, str, str], dict[float, str]] = {}
    for cell, parsed in data.parsed.items():
        if parsed.view is not None and parsed.view.size is not None and parsed.arm.name not in _NO_SWEEP:
            unit = "share" if parsed.view.size <= 1 else "tokens"
            families.setdefault((str(parsed.arm), parsed.view.method, unit), {})[parsed.view.size] = cell
    return [
        _size_sweep(data, arm, method, unit, cells)
        for (arm, method, unit), cells in families.items()
        if len(cells) > 1
    ]


def _size_sweep(data: Indexed, arm: str, method: str, unit: str, cells: Mapping[float, str]) -> Sweep:
    points = tuple(_point(data, size, cells[size]) for size in sorted(cells, reverse=True))
    trend = _trend(data, cells)
    name = f"{method} ({unit})"
    return Sweep(name, unit, arm, points, trend, _statement(arm, name, trend))


def _trend(data: Indexed, cells: Mapping[float, str]) -> Trend | None:
    """Of the gain over each size's own Floor, over the samples that all of them answered."""
    floors = {size: floor_of(data, str(data.parsed[cell].view)) for size, cell in cells.items()}
    pairs = {size: (cells[size], floor) for size, floor in floors.items() if floor is not None}
    if len(pairs) < 2:
        return None
    common = data.common(*(cell for pair in pairs.values() for cell in pair))
    if not common:
        return None
    gains = {
        size: [a - b for a, b in zip(data.column(cell, common), data.column(floor, common), strict=True)]
        for size, (cell, floor) in pairs.items()
    }
    return severity_trend(gains, data.clusters(common))


def _statement(arm: str, name: str, trend: Trend | None) -> str:
    if trend is None:
        return (
            f"Whether {arm} recovers more under {name} the more is cut cannot be said: no Floor at two sizes."
        )
    slope = f"{points_interval(trend.slope)} points a halving of the view, over {trend.slope.num} samples"
    steps = " → ".join(
        f"{100 * gain:+.1f} at {size:g}" for size, gain in zip(trend.sizes, trend.gains, strict=True)
    )
    if trend.grows:
        shape = "" if trend.is_monotone else ", though not at every step"
        verdict = f"The gain of {arm} over Floor grows with severity{shape}"
    elif trend.slope.high is not None and trend.slope.high < 0:
        verdict = f"The gain of {arm} over Floor does not grow with severity: it shrinks"
    else:
        verdict = f"The gain of {arm} over Floor does not grow with severity beyond chance"
    return f"{verdict} ({name}: {slope}; {steps})."


def _by_option(data: Indexed) -> list[Sweep]:
    """Cells that differ in one numeric option; the arm without it stands at the option's default."""
    families: dict[tuple[str, str, str], dict[float, str]] = {}
    for cell, parsed in data.parsed.items():
        for option, value in parsed.arm.options.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                rest = {name: given for name, given in parsed.arm.options.items() if name != option}
                base = ArmSpec(parsed.arm.name, rest)
                family = families.setdefault((str(base), option, str(parsed.view or "")), {})
                family[float(value)] = cell
                default = str(Cell(base, parsed.view))
                if default in data.cells:
                    family.setdefault(float(getattr(base.asymspec_options(), option)), default)
    return [
        Sweep(
            f"{option} ({base}{f' on {view}' if view else ''})",
            option,
            base,
            tuple(_point(data, value, cells[value]) for value in sorted(cells)),
            None,
            "",
        )
        for (base, option, view), cells in families.items()
        if len(cells) > 1
    ]


def _point(data: Indexed, x: float, cell: str) -> SweepPoint:
    view = data.parsed[cell].view
    floor = floor_of(data, None if view is None else str(view))
    calls = [
        call.compressed_tokens
        for record in data.cells[cell].values()
        if record.output is not None
        for call in record.output.calls
        if call.compressed_tokens is not None
    ]
    floor_mean: Estimate | None = mean_of(data, floor, list(data.cells[floor])) if floor else None
    return SweepPoint(
        x=x,
        cell=cell,
        mean=mean_of(data, cell, list(data.cells[cell])),
        floor=floor_mean,
        recovered=share_of(data, cell, floor, named_cell(data, "ceiling", None)),
        view_tokens=sum(calls) / len(calls) if calls else None,
    )
