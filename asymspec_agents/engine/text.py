"""From token ids to streamed text: whole characters only, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..errors import ConfigurationError

__all__ = ["Decodes", "TextStream"]

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class Decodes(Protocol):
    """What is needed of a tokenizer."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str | list[str]: ...


class TextStream:
    """Turns tokens into text as they come.

    Special tokens have no text, but for those of `visible`, by id, which a reader of the text needs: a stop
    string never begins or ends inside one of them, but may be one. Invariants: the pieces concatenate to the
    decoded tokens, cut before the first stop string; a piece never ends inside a character or inside what may
    become a stop string.
    """

    def __init__(
        self, tokenizer: Decodes, stop: Sequence[str] = (), visible: Mapping[int, str] | None = None
    ) -> None:
        if any(not s for s in stop):
            raise ConfigurationError("stop contains an empty string; every stop string needs a character")
        self._tokenizer = tokenizer
        self._stop = tuple(stop)
        self._visible = visible or {}
        self._ids: list[int] = []
        self._start = 0  # ids before this are only context for the ones after
        self._done = 0  # ids before this are in the text
        self._held = ""  # decoded, but may be the beginning of a stop string
        self.is_stopped = False

    def push(self, token_id: int) -> str:
        """The text that became final with this token; sets `is_stopped` where it completes a stop string."""
        if token_id in self._visible:
            return self._push_visible(token_id)
        self._ids.append(token_id)
        before = self._decode(self._ids[self._start : self._done])
        after = self._decode(self._ids[self._start :])
        if len(after) <= len(before) or after.endswith(REPLACEMENT):
            return ""
        self._start, self._done = self._done, len(self._ids)
        return self._release(after[len(before) :])

    def finish(self) -> str:
        """What was held back, at the end of the answer."""
        if self.is_stopped:
            return ""
        before = self._decode(self._ids[self._start : self._done])
        tail = self._release(self._decode(self._ids[self._start :])[len(before) :])
        tail, self._held = tail + self._held, ""
        return tail

    def _push_visible(self, token_id: int) -> str:
        """What was held back, as nothing goes on over a mark, and the mark."""
        text, mark = self.finish(), self._visible[token_id]
        if self.is_stopped or mark in self._stop:
            self.is_stopped = True
            return text
        if self._done < len(self._ids):
            self._start = self._done
        self._ids.append(token_id)
        self._done = len(self._ids)
        return text + mark

    def _release(self, new: str) -> str:
        text = self._held + new
        found = [at for at in (text.find(s) for s in self._stop) if at >= 0]
        if found:
            self.is_stopped = True
            self._held = ""
            return text[: min(found)]
        keep = self._possible_stop(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]

    def _possible_stop(self, text: str) -> int:
        """Length of the longest end of `text` that begins a stop string."""
        longest = max((len(s) for s in self._stop), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            if any(s.startswith(text[-length:]) for s in self._stop):
                return length
        return 0

    def _decode(self, ids: list[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))
