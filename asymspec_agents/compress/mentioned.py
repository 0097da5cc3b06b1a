"""A compressor for prose whose renditions also name what the dropped text mentions."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ..tokens import TokenCounter
from .base import Compressor, Rendition
from .protected import mentions

__all__ = ["Mentioned"]

_SHARE = 10  # one part in so many of the target goes to mentions, at most
_MIN_ROOM_TOKENS = 30
_MAX_LISTED = 100


@dataclass(frozen=True, slots=True)
class Mentioned:
    """The inner compressor's renditions; below them, what speaks for itself in the text they leave out.

    `[also mentioned: …]` lists addresses, paths, identifiers, hashes and error names byte for byte, as many
    as fit a tenth of the target; the line is left out where there are none.
    """

    inner: Compressor

    @property
    def configuration(self) -> str:
        return f"mentioned/1({self.inner.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens` where the inner compressor's is."""
        room = target_tokens // _SHARE
        named = mentions(text) if room >= _MIN_ROOM_TOKENS and counter.count(text) > target_tokens else []
        inner_tokens = target_tokens - room if named else target_tokens
        made = self.inner.compress(text, query=query, target_tokens=inner_tokens, counter=counter)
        missing = [name for name in named if name not in made.text]
        if not missing or made.text == text:
            return made
        listed = _list(missing, target_tokens - counter.count(made.text), counter)
        whole = f"{made.text}\n{listed}" if listed else made.text
        return replace(made, text=whole) if counter.count(whole) <= target_tokens else made


def _list(names: list[str], room: int, counter: TokenCounter) -> str:
    """As many of the names as fit, the first ones first; the line says whether there are more."""
    kept: list[str] = []
    room -= counter.count("\n[also mentioned: , and 1,000 more]")
    for name in names[:_MAX_LISTED]:
        cost = counter.count(f", {name}")
        if cost <= room:
            kept.append(name)
            room -= cost
    if not kept:
        return ""
    num_more = len(names) - len(kept)
    more = f", and {num_more:,} more" if num_more else ""
    return f"[also mentioned: {', '.join(kept)}{more}]"
