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

_FILE = re.compile(r"diff |--- |Index: ")
_GAP = " […]"


@dataclass(frozen=True, slots=True)
class Diff:
    """Shortens a diff by whole hunks: first without the context lines, ` […]` in their place.

    Hunk headers tell how many lines each hunk had. Hunks that match the query come first, then the first and
    the last; a file's header is kept before any of its hunks.
    """

    ranker: Ranker = field(default_factory=default_ranker)
    fallback: HeadTail = field(default_factory=HeadTail)

    @property
    def configuration(self) -> str:
        return f"diff/1(ranker={self.ranker.configuration},fallback={self.fallback.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "diff", "diff")
        rows, header_of = _rows(split_lines(text))
        short = [_without_context(row) if row.startswith("@@") else row for row in rows]
        scores = row_scores(self.ranker, rows, query_terms(query))
        order: dict[int, None] = {}
        for index in keeping_order(len(rows), scores):
            order[header_of[index]] = None
            order[index] = None
        shortened = select_rows(text, short, list(order), target_tokens, counter, unit="hunks")
        if shortened is None:
            return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, "diff", "diff")


def _rows(lines: list[str]) -> tuple[list[str], list[int]]:
    """File headers and hunks, and the row of each one's file header."""
    starts: list[int] = []
    headers: list[int] = []
    in_hunk = True
    for index, line in enumerate(lines):
        starts_file = _FILE.match(line) is not None and (in_hunk or not starts)
        if line.startswith("--- ") and in_hunk and not _is_file_line(lines, index):
            starts_file = False
        if starts_file or line.startswith("@@") or not starts:
            in_hunk = line.startswith("@@")
            headers.append(headers[-1] if in_hunk and headers else len(starts))
            starts.append(index)
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
