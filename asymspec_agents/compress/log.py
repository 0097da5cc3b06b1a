"""Logs: errors and what they trace back to, the lines that bear on the query, one line of each pattern."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..tokens import TokenCounter
from .base import Rendition
from .headtail import HeadTail
from .lines import select_rows, split_lines
from .ranking import Ranker, default_ranker
from .rows import row_scores
from .terms import query_terms

__all__ = ["Log"]

_ERROR = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|EMERG|ALERT)\b|\b(?:[Ee]rror|[Ee]xception|panic|fatal)\b"
    r"|\b\w+(?:Error|Exception)\b|Traceback \(most recent call last\)|\b(?:FAILED|FAIL)\b"
)
_CONTINUES = re.compile(
    r"\s+\S|\w*(?:Error|Exception)\b|Caused by:|During handling|The above exception|\tat "
)
_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|[0-9]+")
_IN_TRACE = re.compile(r"\s+\S|Traceback \(")  # lines of which the error's own says how many there were
_LIBRARY = re.compile(
    r"site-packages|dist-packages|/lib/python3|<frozen |node_modules|\bat (?:java|javax|sun)\."
)
_NUM_FIRST = 3
_NUM_LAST = 5
_MAX_TRACE_LINES = 40


@dataclass(frozen=True, slots=True)
class Log:
    """Keeps error lines with their traces, the first and last lines, lines that match the query, then one
    line of each pattern; a kept line says how many others differ from it in numbers only."""

    ranker: Ranker = field(default_factory=default_ranker)
    fallback: HeadTail = field(default_factory=HeadTail)

    @property
    def configuration(self) -> str:
        return f"log/2(ranker={self.ranker.configuration},fallback={self.fallback.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "log", "log")
        lines = split_lines(text)
        patterns = [_VARIABLE.sub("#", line[:300]) for line in lines]
        alike = Counter(patterns)
        seen: set[str] = set()
        news: list[int] = []
        rows = list(lines)
        for index, pattern in enumerate(patterns):
            if pattern not in seen and pattern.strip():
                seen.add(pattern)
                news.append(index)
                if alike[pattern] > 1 and not _IN_TRACE.match(lines[index]):
                    rows[index] += f"  [… and {alike[pattern] - 1:,} like it …]"
        order = self._order(lines, news, query)
        shortened = select_rows(text, rows, order, target_tokens, counter, unit="lines")
        if shortened is None:
            return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, "log", "log")

    def _order(self, lines: Sequence[str], news: list[int], query: str) -> Iterator[int]:
        last = len(lines) - 1
        yield from (0, last)
        is_new = set(news)
        errors = [index for index in range(len(lines)) if _ERROR.search(lines[index][:1000])]
        # The latest occurrence of an error too: it tells whether the trouble went on.
        for index in [index for index in errors if index in is_new] + errors[-1:]:
            yield from _trace(lines, index)
        yield from range(min(_NUM_FIRST, len(lines)))
        yield from range(max(last - _NUM_LAST + 1, 0), len(lines))
        scores = row_scores(self.ranker, lines, query_terms(query))
        matches = (index for index in range(len(lines)) if scores[index] > 0)
        yield from sorted(matches, key=lambda index: -scores[index])
        yield from news
        yield from errors
        yield from range(last, -1, -1)


def _trace(lines: Sequence[str], index: int) -> Iterator[int]:
    """The line and those below it that belong to its stack trace: the exception and the program's own frames
    first, then those of libraries."""
    end = index + 1
    while end < min(index + _MAX_TRACE_LINES, len(lines)) and _CONTINUES.match(lines[end]):
        end += 1
    yield index
    if end > index + 1:
        yield end - 1
    yield from (i for i in range(index + 1, end) if not _of_library(lines, i))
    yield from range(index + 1, end)


def _of_library(lines: Sequence[str], index: int) -> bool:
    """Whether a line of a trace, or the frame that it is the source of, lies in an installed library."""
    return any(_LIBRARY.search(lines[i][:400]) for i in (index, index - 1))
