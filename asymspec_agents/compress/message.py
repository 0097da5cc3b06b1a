"""A long message of the user: how it begins and ends stays, what lies between is compressed.

People put what they ask before or after what they paste, so the ends are both kept word for word and the
query by which the middle is compressed.
"""

from __future__ import annotations

from dataclasses import replace

from ..tokens import TokenCounter
from .base import Compressor, Rendition
from .cuts import snap_back, snap_forward

__all__ = ["EndsKept", "ends"]

MAX_END_CHARS = 600  # of each end; a shorter first or last paragraph is kept alone


class EndsKept:
    """A compressor that leaves a text's ends alone and gives its middle to another one."""

    def __init__(self, inner: Compressor) -> None:
        self._inner = inner

    @property
    def configuration(self) -> str:
        return f"ends-kept-1({MAX_END_CHARS},{self._inner.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """The text with its middle compressed so that about `target_tokens` remain in all."""
        opening_end, closing_start = ends(text)
        opening, middle, closing = text[:opening_end], text[opening_end:closing_start], text[closing_start:]
        kept_tokens = counter.count(opening) + counter.count(closing)
        made = self._inner.compress(
            middle,
            query="\n".join(part for part in (query, opening, closing) if part),
            target_tokens=max(1, target_tokens - kept_tokens),
            counter=counter,
        )
        gap = "" if made.text.endswith("\n") or not closing else "\n"
        return replace(made, text=f"{opening}{made.text}{gap}{closing}")


def ends(text: str) -> tuple[int, int]:
    """Where the opening stops and the closing starts: a paragraph, a line, or at most MAX_END_CHARS."""
    body_start = len(text) - len(text.lstrip())
    body_end = len(text.rstrip())
    limit = min(MAX_END_CHARS, (body_end - body_start) // 4)
    opening = closing = -1
    for separator in ("\n\n", "\n"):
        if opening < 0:
            found = text.find(separator, body_start, body_start + limit)
            opening = found + len(separator) if found >= 0 else -1
        if closing < 0:
            found = text.rfind(separator, body_end - limit, body_end)
            closing = found + len(separator) if found >= 0 else -1
    if opening < 0:
        opening = snap_back(text, body_start + limit, body_start)
    if closing < 0:
        closing = snap_forward(text, body_end - limit, body_end)
    return opening, closing
