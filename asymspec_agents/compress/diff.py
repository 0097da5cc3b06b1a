"""Unified diffs: every file's and hunk's header, changed lines before the context around them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..tokens import TokenCounter
from .base import Rendition
from .headtail import HeadTail
from .lines import select_rows, split_lines
from .ranking import Ranker, default_ranker
from .rows import keeping_order, row_scores
from .terms import query_terms

__all__ = ["Diff"]

_FILE = re.compile(r"diff |--- |Index: |commit [0-9a-f]{7,64}\b")
_NUM_FOREMOST = 6  # lines before the first file that come first: commit, author, date, subject
_GAP = " […]"


@dataclass(frozen=True, slots=True)
class Diff:
    """Shortens a diff by whole hunks: first without the context lines, ` […]` in their place.

    Hunk headers tell how many lines each hunk had. Hunks that match the query come first, then the first and
    the last; a file's header is kept before any of its hunks. Of what stands before the first file (a
    commit's message, a list of files) each line is kept or left out by itself.
    """

    ranker: Ranker = field(default_factory=default_ranker)
    fallback: HeadTail = field(default_factory=HeadTail)

    @property
    def configuration(self) -> str:
        return f"diff/2(ranker={self.ranker.configuration},fallback={self.fallback.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "diff", "diff")
        lines = split_lines(text)
        opening = _opening(lines)
        rows, header_of = _rows(lines[opening:])
        rows = [*lines[:opening], *rows]
        header_of = [*range(opening), *(opening + row for row in header_of)]
        short = [_without_context(row) if row.startswith("@@") else row for row in rows]
        scores = row_scores(self.ranker, rows, query_terms(query))
        order: dict[int, None] = {}
        best, *others = keeping_order(len(rows), scores)
        for index in (best, *range(min(_NUM_FOREMOST, opening)), *others):
            order[header_of[index]] = None
            order[index] = None
        shortened = select_rows(text, short, list(order), target_tokens, counter, unit="hunks")
        if shortened is None:
            return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, "diff", "diff")


def _opening(lines: list[str]) -> int:
    """How many lines stand before the first file."""
    for index, line in enumerate(lines):
        if line.startswith(("diff ", "Index: ", "@@")) or (
            line.startswith("--- ") and _is_file_line(lines, index)
        ):
            return index
    return 0


def _rows(lines: list[str]) -> tuple[list[str], list[int]]:
    """File headers and hunks, and the row of each one's file header."""
    starts: list[int] = []
    headers: list[int] = []
    in_hunk = True
    seen: set[str] = set()  # how the lines begin that the header so far consists of
    for index, line in enumerate(lines):
        match = _FILE.match(line)
        opening = match.group().split(" ")[0] if match else ""
        if opening == "---" and in_hunk and not _is_file_line(lines, index):
            opening = ""
        starts_file = bool(opening) and (in_hunk or opening in seen)
        if starts_file or line.startswith("@@") or not starts:
            in_hunk = line.startswith("@@")
            headers.append(headers[-1] if in_hunk and headers else len(starts))
            starts.append(index)
            seen = set()
        if opening and not in_hunk:
            seen.add(opening)
    ends = [*starts[1:], len(lines)]
    return ["\n".join(lines[a:b]) for a, b in zip(starts, ends, strict=True)], headers


def _is_file_line(lines: list[str], index: int) -> bool:
    """Whether `--- ` names a file: a removed line may look the same."""
    return index + 1 < len(lines) and lines[index + 1].startswith("+++ ")


def _without_context(hunk: str) -> str:
    kept: list[str] = []
    header, *lines = hunk.split("\n")
    for line in lines:
        if line[:1] in ("+", "-", "\\"):
            kept.append(line)
        elif not kept or kept[-1] != _GAP:
            kept.append(_GAP)
    short = "\n".join([header, *kept])
    return short if len(short) < len(hunk) else hunk
