"""A text against its rendition: what was kept, what was dropped, what was put in, for a terminal or a pipe.

Lines are matched in order first, by a look-up; where lines are left over on both sides, runs of words are. In
colour, dropped text is red and struck through and added text is green; without, they stand as `[-dropped-]`
and `{+added+}`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

__all__ = ["Piece", "diff", "rendered"]

Fate = Literal["kept", "dropped", "added"]

MIN_RUN_CHARS = 5  # a shorter run is found anywhere and says nothing
MAX_WORK = 50_000_000  # words times characters of one gap; a larger one is dropped and added whole
_WORD = re.compile(r"\s*\S+\s*|\s+")
_COLOURS = {"kept": ("", ""), "dropped": ("\x1b[31;9m", "\x1b[0m"), "added": ("\x1b[32m", "\x1b[0m")}
_MARKS = {"kept": ("", ""), "dropped": ("[-", "-]"), "added": ("{+", "+}")}


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of text with one fate: kept and dropped make the original, kept and added the rendition."""

    fate: Fate
    text: str


def diff(original: str, rendition: str) -> list[Piece]:
    """The pieces of both texts, in order, neighbours of one fate joined."""
    return list(_joined(_by_lines(original.splitlines(keepends=True), rendition.splitlines(keepends=True))))


def _by_lines(original: list[str], rendition: list[str]) -> Iterator[Piece]:
    places: dict[str, list[int]] = {}
    for index, line in enumerate(original):
        places.setdefault(line, []).append(index)
    position = 0
    unmatched: list[str] = []
    for line in rendition:
        found = places.get(line, [])
        at = bisect_left(found, position)
        if at == len(found) or not line.strip():  # blank lines are everywhere and would pull the match along
            unmatched.append(line)
            continue
        yield from _by_words("".join(original[position : found[at]]), "".join(unmatched))
        yield Piece("kept", line)
        unmatched, position = [], found[at] + 1
    yield from _by_words("".join(original[position:]), "".join(unmatched))


def _by_words(original: str, rendition: str) -> Iterator[Piece]:
    """Of lines that are not the same: the longest runs of words that stand in the original, in order."""
    if original == rendition:
        yield Piece("kept", original)
        return
    words = _WORD.findall(rendition)
    position = at = 0
    while at < len(words) and len(words) * len(original) <= MAX_WORK:
        num_words, found = _longest_run(words, at, original, position)
        run = "".join(words[at : at + num_words])
        if found < 0:
            yield Piece("added", run)
        else:
            yield from (Piece("dropped", original[position:found]), Piece("kept", run))
            position = found + len(run)
        at += num_words
    yield from (Piece("dropped", original[position:]), Piece("added", "".join(words[at:])))


def _longest_run(words: list[str], at: int, original: str, position: int) -> tuple[int, int]:
    """How many words from `at` on stand together in the original, and where; one word and -1 for none."""
    fits, found, beyond = 0, -1, len(words) - at + 1
    num_words = min(4, beyond - 1)
    while beyond - fits > 1:
        where = original.find("".join(words[at : at + num_words]), position)
        if where < 0:
            beyond = num_words
        else:
            fits, found = num_words, where
        num_words = min(2 * fits, beyond - 1) if beyond > 2 * fits > 0 else (fits + beyond) // 2
        num_words = max(num_words, fits + 1)
    run = "".join(words[at : at + fits])
    return (fits, found) if len(run.strip()) >= MIN_RUN_CHARS else (1, -1)


def _joined(pieces: Iterable[Piece]) -> Iterator[Piece]:
    fate: Fate = "kept"
    texts: list[str] = []
    for piece in pieces:
        if piece.fate != fate and piece.text:
            if texts:
                yield Piece(fate, "".join(texts))
            fate, texts = piece.fate, []
        if piece.text:
            texts.append(piece.text)
    if texts:
        yield Piece(fate, "".join(texts))


def rendered(pieces: Iterable[Piece], *, colour: bool) -> str:
    """The pieces as one text; control characters of the content itself cannot reach a terminal."""
    marks = _COLOURS if colour else _MARKS
    return "".join(f"{marks[piece.fate][0]}{printable(piece.text)}{marks[piece.fate][1]}" for piece in pieces)


def printable(text: str) -> str:
    """The text with control characters other than tab and line feed shown as U+FFFD."""
    return _CONTROLS.sub("\ufffd", text.replace("\r\n", "\n"))


_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
