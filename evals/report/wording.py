"""How numbers are written: points, shares, ratios, times, sizes, each with its interval."""

from __future__ import annotations

import math

from ..statistics import Estimate

__all__ = ["bounds", "count", "p_value", "points", "points_interval", "ratio", "seconds", "signed", "size"]


def points(value: float) -> str:
    """A value in [0, 1] times 100."""
    return _number(100 * value, 1)


def signed(value: float) -> str:
    """A difference in points, with its sign; nothing before zero."""
    text = _number(100 * value, 1)
    return text if text.startswith("−") or float(text) == 0 else f"+{text}"


def bounds(estimate: Estimate, scale: float = 100, digits: int = 1, *, sign: bool = False) -> str:
    """The interval in brackets, or the reason why there is none."""
    if estimate.low is None or estimate.high is None:
        return estimate.note
    low, high = (_number(scale * bound, digits) for bound in (estimate.low, estimate.high))
    if sign:
        low, high = (text if text[0] in "−∞" or float(text) == 0 else f"+{text}" for text in (low, high))
    return f"[{low}, {high}]"


def points_interval(estimate: Estimate) -> str:
    """A difference in points with its interval."""
    return f"{signed(estimate.value)} {bounds(estimate, sign=True)}".strip()


def ratio(value: float | None) -> str:
    """A ratio to Ceiling."""
    return "–" if value is None else f"{_number(value, 2)}×"


def seconds(value: float | None) -> str:
    """Seconds with three digits."""
    if value is None:
        return "–"
    if value >= 100:
        return f"{value:.0f} s"
    return f"{value:.2g} s" if value < 0.1 else f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def size(value: int | None) -> str:
    """Bytes in binary units."""
    if value is None:
        return "–"
    amount = float(value)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.2f} GiB"


def count(value: float | None) -> str:
    """A number of tokens."""
    return "–" if value is None else f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def p_value(value: float | None) -> str:
    """A p-value; nothing where there is none."""
    if value is None:
        return ""
    return "p < 0.001" if value < 0.001 else f"p = {value:.3f}" if value < 0.1 else f"p = {value:.2f}"


def _number(value: float, digits: int) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{0 if abs(value) >= 1000 else digits}f}"
    return f"−{text[1:]}" if text.startswith("-") and float(text) != 0 else text.lstrip("-")
