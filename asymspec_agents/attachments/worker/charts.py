"""Charts of office files as tables: their XML holds the numbers that were drawn, whatever its type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from xml.etree import ElementTree

__all__ = ["chart_lines"]

_CHART = "{{http://schemas.openxmlformats.org/drawingml/2006/chart}}{}"
_TEXT = "{http://schemas.openxmlformats.org/drawingml/2006/main}t"
_MAX_POINTS = 10_000


def chart_lines(xml: bytes) -> Iterator[str]:
    """The chart's title, then the categories and values of each series. Raises ElementTree.ParseError."""
    root = ElementTree.fromstring(xml)
    title = root.find(f"{_tag('chart')}/{_tag('title')}")
    words = (
        " ".join("".join(node.text or "" for node in title.iter(_TEXT)).split()) if title is not None else ""
    )
    yield f"[chart: {words}]" if words else "[chart]"
    before: list[str] = []
    for series in root.iter(_tag("ser")):
        name = " ".join(_points(series, "tx"))
        categories = _points(series, "cat") or _points(series, "xVal")
        values = _points(series, "val") or _points(series, "yVal")
        if categories and categories != before:
            yield f"| | {' | '.join(categories)} |"
            before = categories
        if name or values:
            yield f"| {name} | {' | '.join(values)} |"


def _points(series: Any, name: str) -> list[str]:
    """The values in their places: a place without one has none in the file."""
    part = series.find(_tag(name))
    if part is None:
        return []
    levels = part.findall(f".//{_tag('lvl')}")
    points: dict[int, list[str]] = {}
    for level in reversed(levels) if levels else [part]:  # the outermost level stands last
        for point in level.iter(_tag("pt")):
            place = point.get("idx", "")
            if place.isdecimal() and int(place) < _MAX_POINTS:
                points.setdefault(int(place), []).append(_shown(point.findtext(_tag("v")) or ""))
    if not points:
        return [_shown(value.text or "") for value in part.iter(_tag("v"))]
    return [" ".join(points.get(place, [])) for place in range(max(points) + 1)]


def _tag(name: str) -> str:
    return _CHART.format(name)


def _shown(value: str) -> str:
    try:
        return f"{float(value):.10g}"
    except ValueError:
        return " ".join(value.split())
