"""A text's words and their places as columns.

Two megabytes hold half a million words. As an object each, they would make the garbage collector stop every
thread of the process for tenths of a second, event loops among them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..segments import Span

__all__ = ["Places", "Word", "Words", "WordsWriter", "places_of"]


@dataclass(frozen=True, slots=True)
class Word:
    """A word at `text[start:end]` of the original.

    `written` is the word as the tokenizer's pieces spell it. `is_known` is false where the tokenizer has no
    piece for any of it.
    """

    start: int
    end: int
    written: str
    is_known: bool


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Places `[starts[i], ends[i])` in a text, in its order."""

    starts: NDArray[np.int64]  # [num]
    ends: NDArray[np.int64]  # [num]

    def spans(self, chosen: NDArray[np.bool_] | None = None) -> list[Span]:
        """The chosen ones (all for None) as spans."""
        starts = self.starts if chosen is None else self.starts[chosen]
        ends = self.ends if chosen is None else self.ends[chosen]
        return [Span(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def touching(self, spans: Sequence[Span]) -> list[Span]:
        """Those that share a character with one of the spans, which are in order and apart."""
        if not spans:
            return []
        starts = np.array([span.start for span in spans] + [np.iinfo(np.int64).max])
        next_one = np.searchsorted([span.end for span in spans], self.starts, side="right")
        return self.spans(starts[next_one] < self.ends)


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """A chunk's words; iterating over them makes a `Word` of each."""

    places: Places
    written: tuple[str, ...]
    is_known: NDArray[np.bool_]  # [num]

    def __len__(self) -> int:
        return len(self.written)

    def __iter__(self) -> Iterator[Word]:
        columns = (self.places.starts.tolist(), self.places.ends.tolist(), self.written)
        return map(Word, *columns, self.is_known.tolist())


class WordsWriter:
    """Words, one after the other, to columns."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._written: list[str] = []
        self._is_known: list[bool] = []

    def add(self, word: Word) -> None:
        """One more word."""
        self._starts.append(word.start)
        self._ends.append(word.end)
        self._written.append(word.written)
        self._is_known.append(word.is_known)

    def words(self) -> Words:
        """All of them."""
        places = Places(np.array(self._starts, np.int64), np.array(self._ends, np.int64))
        return Words(places, tuple(self._written), np.array(self._is_known, np.bool_))


def places_of(parts: Sequence[Words]) -> Places:
    """The places of several chunks' words, one chunk's after the other's."""
    if not parts:
        return Places(np.zeros(0, np.int64), np.zeros(0, np.int64))
    return Places(
        np.concatenate([part.places.starts for part in parts]),
        np.concatenate([part.places.ends for part in parts]),
    )
