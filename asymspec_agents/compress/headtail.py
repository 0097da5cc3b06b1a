"""Head/tail truncation: the start and the end of a text around a marker. What every other compressor falls
back to, so it depends on nothing and takes any string."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigurationError
from ..tokens import TokenCounter
from .base import Rendition
from .cuts import longest_fit, snap_back, snap_forward
from .marker import left_out, short_reference

__all__ = ["HeadTail"]


@dataclass(frozen=True, slots=True)
class HeadTail:
    """Keeps the head and the tail of a text, cut at lines, else words, else whole graphemes.

    `head_share` of the kept tokens go to the head. A text within the target is returned as it is. Otherwise
    the rendition has at most `target_tokens`, or is the marker alone where the target is smaller than that.
    """

    head_share: float = 0.6

    def __post_init__(self) -> None:
        if not 0 <= self.head_share <= 1:
            raise ConfigurationError(f"head_share={self.head_share}: must be between 0 and 1")

    @property
    def configuration(self) -> str:
        return f"headtail/1(head_share={self.head_share:g})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """Head, marker and tail of `text`; the query is not used."""
        return Rendition(self.truncate(text, target_tokens, counter), "headtail", "text")

    def truncate(self, text: str, target_tokens: int, counter: TokenCounter) -> str:
        """The truncated text alone."""
        num_tokens = counter.count(text)
        if num_tokens <= target_tokens:
            return text
        reference = short_reference(text)
        smallest = left_out(len(text), reference)
        smallest_tokens = counter.count(smallest)
        budget = target_tokens - smallest_tokens - 2  # 2: the line breaks around the marker
        while budget > 0:
            shortened = self._around_marker(text, reference, budget, counter)
            excess = counter.count(shortened) - target_tokens
            if excess <= 0:
                return shortened
            budget -= excess + 1
        return smallest if smallest_tokens < num_tokens else text

    def _around_marker(self, text: str, reference: str, budget: int, counter: TokenCounter) -> str:
        head_tokens = round(budget * self.head_share)
        fitting = longest_fit(lambda n: counter.count(text[:n]), len(text), head_tokens)
        head_end = snap_back(text, fitting, 0)
        rest = len(text) - head_end
        fitting = longest_fit(lambda n: counter.count(text[len(text) - n :]), rest, budget - head_tokens)
        tail_start = snap_forward(text, len(text) - fitting, len(text))
        head, tail = text[:head_end], text[tail_start:]
        marker = left_out(tail_start - head_end, reference)
        before = "" if not head or head[-1].isspace() else "\n" if tail.count("\n") else " "
        after = (
            ""
            if not tail or tail[0].isspace()
            else "\n"
            if tail_start and text[tail_start - 1] == "\n"
            else " "
        )
        return f"{head}{before}{marker}{after}{tail}"
