"""Any value as plain JSON: what recorders do to the fields they are given, so that writing never fails."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from pathlib import PurePath
from typing import Any

__all__ = ["plain_json"]

MAX_DEPTH = 64
"""Deeper values are cut: far below Python's recursion limit, far above any real event."""

MAX_INT_BITS = 4096
"""Longer integers become strings: Python refuses to write those of more than about 14,000 bits."""


def plain_json(value: Any, depth: int = MAX_DEPTH) -> Any:
    """The value built from dict, list, str, int, finite float, bool and None only; never raises.

    NaN and infinities become the strings "NaN", "Infinity", "-Infinity"; keys become strings; sets, paths and
    numbers of other libraries become lists, strings and numbers; anything else becomes its type's name, since
    a repr may hold contents. Plain values come back equal, and the function is idempotent.
    """
    try:
        return _plain(value, depth)
    except Exception:  # an object's own conversion failed, or it changed meanwhile
        return f"<{type(value).__name__}>"


def _plain(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # a plain str also for subclasses such as string enums
    if isinstance(value, int):
        return int(value) if value.bit_length() <= MAX_INT_BITS else f"{value:#x}"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else _name_of(value)
    if depth == 0:
        return "<too deep>"
    if isinstance(value, Mapping):
        return {_key(key): plain_json(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_json(item, depth - 1) for item in value]
    if isinstance(value, Set):
        return sorted((plain_json(item, depth - 1) for item in value), key=repr)
    if isinstance(value, PurePath):
        return str(value)
    if hasattr(value, "model_dump"):  # a pydantic model nested in an event
        return plain_json(value.model_dump(exclude_unset=True), depth - 1)
    if hasattr(value, "tolist"):  # NumPy and torch, scalars and arrays
        return plain_json(value.tolist(), depth - 1)
    return f"<{type(value).__name__}>"


def _key(key: Any) -> str:
    plain = plain_json(key)
    return plain if isinstance(plain, str) else repr(plain)


def _name_of(number: float) -> str:
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
