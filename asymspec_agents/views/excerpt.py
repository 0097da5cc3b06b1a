"""What the full view keeps of a text that is too long for the drafter: what was asked for, and both ends."""

from __future__ import annotations

from dataclasses import replace

from ..compress.auto import AutoCompressor
from ..compress.base import Rendition
from ..compress.message import ends
from ..tokens import TokenCounter

__all__ = ["Excerpt"]

PROSE = frozenset({"text", "markdown"})  # renditions of other kinds have first and last rows by themselves


class Excerpt:
    """AutoCompressor's renditions, which take no model; running text keeps both ends as well."""

    def __init__(self) -> None:
        self._inner = AutoCompressor()

    @property
    def configuration(self) -> str:
        return f"excerpt/1({self._inner.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or a marker alone where the target is smaller."""
        made = self._inner.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        if made.kind not in PROSE or made.text == text or made.compressor == "headtail":
            return made
        lines = (text.find("\n") + 1, text.rstrip("\n").rfind("\n") + 1)
        for opening_end, closing_start in (ends(text), lines):  # lines where paragraphs are too long
            opening, closing = text[:opening_end], text[closing_start:]
            room = target_tokens - counter.count(f"{opening}\n{closing}")
            if room < target_tokens // 2 or opening_end > closing_start:
                continue
            middle = text[opening_end:closing_start]
            inner = self._inner.compress(middle, query=query, target_tokens=room, counter=counter)
            gap = "" if inner.text.endswith("\n") else "\n"
            whole = replace(inner, text=f"{opening}{inner.text}{gap}{closing}")
            return whole if counter.count(whole.text) <= target_tokens else made
        return made
