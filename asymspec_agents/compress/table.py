"""Tables as text (CSV, TSV, Markdown, aligned columns): the header, then the rows that matter, unchanged."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from ..tokens import TokenCounter
from .base import Rendition
from .headtail import HeadTail
from .lines import select_rows, split_lines
from .ranking import Ranker, default_ranker, preference, relevance
from .terms import query_terms

__all__ = ["Table"]

_RULE = re.compile(r"^[\s|+:=─━┼-]+$")  # the line under a Markdown or drawn header


@dataclass(frozen=True, slots=True)
class Table:
    """Keeps the header, the first and last rows and those that match the query, each whole and in order."""

    ranker: Ranker = field(default_factory=default_ranker)
    fallback: HeadTail = field(default_factory=HeadTail)

    @property
    def configuration(self) -> str:
        return f"table/1(ranker={self.ranker.configuration},fallback={self.fallback.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "table", "table")
        rows = _rows(text)
        num_header = 2 if len(rows) > 1 and _RULE.match(rows[1][:1000]) else 1
        scores = relevance(self.ranker, rows, query_terms(query))
        order = [*range(num_header), *preference(len(rows), scores)]
        shortened = select_rows(text, rows, order, target_tokens, counter, unit="rows")
        if shortened is None:
            return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, "table", "table")


def _rows(text: str) -> list[str]:
    """The rows; lines inside a quoted CSV field belong to one row (where quotes pair up at all)."""
    lines = split_lines(text.rstrip("\n"))
    starts: list[int] = []
    is_open = False
    for index, line in enumerate(lines):
        if not is_open:
            starts.append(index)
        is_open ^= line.count('"') % 2 == 1
    if is_open:
        return lines
    return ["\n".join(lines[start:end]) for start, end in pairwise([*starts, len(lines)])]
