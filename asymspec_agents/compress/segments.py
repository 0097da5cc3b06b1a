"""A text as passages with headings, and these as sentences: what extraction keeps or leaves out."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .cuts import is_grapheme_boundary

__all__ = ["Passage", "Span", "segment"]

_MAX_HEADING_CHARACTERS = 100
_MAX_PENDING_HEADINGS = 3  # more short lines in a row are a list
_MAX_PASSAGE_CHARACTERS = 1_500
_MAX_SENTENCE_CHARACTERS = 600
_MAX_SPANS = 50_000

_LINE = re.compile(r"[^\n]+")
# What may end a sentence begins with its marks, so that text between them is passed over fast. Western marks
# end one before white space only, not after an initial or a common abbreviation, nor before a small letter.
_MARKS = re.compile(r"[.!?…。！？｡؟।]+[\"'”’)\]」』）]*\s*")
_WESTERN_MARKS = frozenset(".!?…")
_ABBREVIATION = re.compile(r"\b(?:[A-Z]|Dr|Mr|Ms|St|No|vs|Jr|Sr|cf|Mrs|Inc|Ltd|Gen|Col|Rev|Vol|Fig)$")
_MAX_ABBREVIATION = 5  # characters looked back at: the longest and those that show where it begins
_ENDS_SENTENCE = re.compile(r"[.!?,;。！？｡、，；؟।][\"'”’)\]」』]*$")


@dataclass(frozen=True, slots=True)
class Span:
    """The piece `text[start:end]`."""

    start: int
    end: int


@dataclass(slots=True)
class Passage:
    """A heading (possibly of several lines, possibly none) and the sentences below it."""

    headings: list[Span] = field(default_factory=list)
    sentences: list[Span] = field(default_factory=list)


def segment(text: str) -> list[Passage]:
    """The passages of `text` in order; every character that is not white space lies in exactly one span.

    A passage begins at a blank line or at a heading: a short line without a sentence end that stands above
    prose. Very short lines are joined in huge texts, so that there are at most about 100,000 spans.
    """
    passages: list[Passage] = []
    pending: list[Span] = []
    follows_blank = True
    last_end = 0
    for line in _lines(text):
        follows_blank = follows_blank or text.count("\n", last_end, line.start) > 1
        last_end = line.end
        if _may_be_heading(text, line):
            if len(pending) == _MAX_PENDING_HEADINGS:
                _add_lines(text, passages, pending, follows_blank=True)
                pending = []
            pending.append(line)
            continue
        if pending:
            passages.append(Passage(headings=pending))
            pending = []
            follows_blank = False
        _add_lines(text, passages, [line], follows_blank)
        follows_blank = False
    _add_lines(text, passages, pending, follows_blank)
    return passages


def _lines(text: str) -> Iterator[Span]:
    """The lines that are not blank, without surrounding white space; short ones joined in a huge text."""
    shortest = len(text) // _MAX_SPANS
    start = end = -1
    for match in _LINE.finditer(text):
        line = match.group()
        stripped = line.strip()
        if not stripped:
            continue
        line_start = match.start() + len(line) - len(line.lstrip())
        if start < 0:
            start = line_start
        end = line_start + len(stripped)
        if end - start >= shortest:
            yield Span(start, end)
            start = -1
    if start >= 0:
        yield Span(start, end)


def _may_be_heading(text: str, line: Span) -> bool:
    if line.end - line.start > _MAX_HEADING_CHARACTERS:
        return False
    return _ENDS_SENTENCE.search(text[line.start : line.end]) is None


def _add_lines(text: str, passages: list[Passage], lines: list[Span], follows_blank: bool) -> None:
    for line in lines:
        is_full = (
            bool(passages)
            and bool(passages[-1].sentences)
            and _length(passages[-1]) > _MAX_PASSAGE_CHARACTERS
        )
        if not passages or is_full or (follows_blank and passages[-1].sentences):
            passages.append(Passage())
        follows_blank = False
        passages[-1].sentences.extend(_sentences(text, line))


def _length(passage: Passage) -> int:
    return passage.sentences[-1].end - passage.sentences[0].start


def _sentences(text: str, line: Span) -> Iterator[Span]:
    start = line.start
    for marks in _MARKS.finditer(text, line.start, line.end):
        if _ends_sentence(text, marks.start(), marks.end()):
            yield from _pieces(text, start, marks.end())
            start = marks.end()
    yield from _pieces(text, start, line.end)


def _ends_sentence(text: str, start: int, end: int) -> bool:
    """Whether the marks at text[start:end], with the white space behind them, end a sentence."""
    if text[start] not in _WESTERN_MARKS:
        return True
    is_within = not text[end - 1].isspace() or "a" <= text[end : end + 1] <= "z"
    return not is_within and not _ABBREVIATION.search(text[max(start - _MAX_ABBREVIATION, 0) : start])


def _pieces(text: str, start: int, end: int) -> Iterator[Span]:
    """The span without white space at its end, cut into pieces at words where it is too long."""
    end = start + len(text[start:end].rstrip())
    while end - start > _MAX_SENTENCE_CHARACTERS:
        cut = text.rfind(" ", start + _MAX_SENTENCE_CHARACTERS // 2, start + _MAX_SENTENCE_CHARACTERS) + 1
        if not cut:
            # A window of its own: a run of flags is then not counted from the text's start at every cut.
            window = text[start : min(end, start + 2 * _MAX_SENTENCE_CHARACTERS)]
            cut = _MAX_SENTENCE_CHARACTERS
            while not is_grapheme_boundary(window, cut):
                cut += 1
            cut += start
        if text[start:cut].strip():
            yield Span(start, cut)
        start = cut
    if text[start:end].strip():
        yield Span(start, end)
