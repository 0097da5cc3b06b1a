"""Stop strings on streamed text: nothing of them is ever emitted, not even their beginning."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["StopCutter", "cut_at_stop"]


class StopCutter:
    """Passes text on up to the first stop string, holding back what may become one.

    The first is the one that is complete first: a longer one around it would end later, and never comes to
    that in a stream. Invariant: the pieces of `feed` and `finish` concatenate to the text before it.
    """

    def __init__(self, stop: Iterable[str]) -> None:
        self._stop = tuple(string for string in stop if string)
        self._held = ""
        self.is_stopped = False

    def feed(self, text: str) -> str:
        """The part of all text so far that is now certain to be emitted and was not yet."""
        if self.is_stopped:
            return ""
        text = self._held + text
        places = [(text.find(string), len(string)) for string in self._stop]
        found = [(at + length, at) for at, length in places if at >= 0]
        if found:
            self.is_stopped, self._held = True, ""
            return text[: min(found)[1]]
        keep = self._begun(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def finish(self) -> str:
        """What was held back, now that the text is over."""
        held, self._held = self._held, ""
        return held

    def _begun(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        longest = max(map(len, self._stop), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(string.startswith(text[-length:]) for string in self._stop):
                return length
        return 0


def cut_at_stop(text: str, stop: Iterable[str]) -> str:
    """The text before its first stop string."""
    cutter = StopCutter(stop)
    return cutter.feed(text) + cutter.finish()
