"""Markers that stand where content was left out, with the reference by which a store finds the original."""

from __future__ import annotations

from ..store import short_reference

__all__ = ["left_out", "short_reference"]


def left_out(size: int, reference: str, unit: str = "characters") -> str:
    """`[… 12,345 characters left out; sha256:0123456789ab …]`; the unit is given in the plural."""
    noun = unit if size != 1 else unit.removesuffix("s")
    return f"[… {size:,} {noun} left out; {reference} …]"
