"""Long strings within JSON, shortened as the texts they are: the pages, logs, code that a tool returns."""

from __future__ import annotations

from dataclasses import dataclass, field

from ..tokens import TokenCounter
from .base import Compressor
from .marker import short_reference

__all__ = ["Leaves"]

_MIN_LENGTH = 600  # characters of a string that is more than a value
_MIN_ROOM = 200
_NUM_ATTEMPTS = 3
_ROUNDED_BITS = 5  # a room is cut by a sixteenth of itself at most


@dataclass(frozen=True, slots=True)
class Leaves:
    """Shortens strings by a compressor; remembers what it made, for as long as it lives."""

    compressor: Compressor
    query: str
    counter: TokenCounter
    _made: dict[tuple[str, int], str | None] = field(default_factory=dict)

    def shorten(self, text: str, room: int) -> str | None:
        """The text in at most `room` characters; None where it or the room is small, or it will not fit.

        Its marker names no reference: the whole of which it is a part is what is kept.
        """
        if len(text) < _MIN_LENGTH or room < _MIN_ROOM:
            return None
        # Rounded, so that a next attempt with nearly the same room finds what this one made.
        room -= room % (1 << max(room.bit_length() - _ROUNDED_BITS, 0))
        key = (text, room)
        if key not in self._made:
            self._made[key] = self._shortened(text, room)
        return self._made[key]

    def _shortened(self, text: str, room: int) -> str | None:
        reference = f"; {short_reference(text)}"
        target = int(room * self.counter.count(text) / len(text))
        for _ in range(_NUM_ATTEMPTS):
            made = self.compressor.compress(
                text, query=self.query, target_tokens=target, counter=self.counter
            )
            shortened = made.text.replace(reference, "")
            if len(shortened) <= room:
                return shortened
            target = int(target * 0.95 * room / len(shortened))
        return None
