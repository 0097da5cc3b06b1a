"""Logs and the output of programs: failures and what they trace back to, the lines that bear on the query,
one line of each pattern."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ..tokens import TokenCounter
from .base import Rendition
from .headtail import HeadTail
from .lines import select_rows, split_lines
from .log_signs import FAILURE, HINT, severities
from .log_traces import Trace, trace_at
from .ranking import Ranker, default_ranker
from .rows import row_scores
from .terms import query_terms

__all__ = ["Log"]

_VARIABLE = re.compile(r"0x[0-9a-fA-F]+|[0-9a-fA-F]{8,}|[0-9]+")
_IN_TRACE = re.compile(r"\s+\S|Traceback \(")  # lines of which the error's own says how many there were
_NUM_FIRST = 3
_NUM_LAST = 5
_NUM_FOREMOST = 3  # failures, then matches of the query, that come before all others


@dataclass(frozen=True, slots=True)
class Log:
    """Keeps lines that tell of failures with their traces, the first and last lines, lines that match the
    query, then one line of each pattern; a kept line says how many others differ from it in numbers only."""

    ranker: Ranker = field(default_factory=default_ranker)
    fallback: HeadTail = field(default_factory=HeadTail)

    @property
    def configuration(self) -> str:
        return f"log/3(ranker={self.ranker.configuration},fallback={self.fallback.configuration})"

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
        scores = row_scores(self.ranker, lines, query_terms(query))
        matches = sorted((i for i in range(len(lines)) if scores[i] > 0), key=lambda i: -scores[i])
        found = severities(lines)
        traces = list(_failures(lines, set(news), found, scores))
        for trace in traces[:_NUM_FOREMOST]:
            yield from trace.core
        yield from matches[:_NUM_FOREMOST]
        for trace in traces[_NUM_FOREMOST:]:
            yield from trace.core
        for trace in traces:
            yield from trace.rest
        yield from range(min(_NUM_FIRST, len(lines)))
        yield from range(max(last - _NUM_LAST + 1, 0), len(lines))
        yield from matches
        yield from news
        yield from found
        yield from range(last, -1, -1)


def _failures(
    lines: Sequence[str], news: set[int], found: Mapping[int, int], scores: Sequence[float]
) -> Iterator[Trace]:
    """The traces of failures, each kind once and the latest of all too: it tells whether the trouble went on.

    Sure ones come first; among them the one that matches the query best, then the first.
    """
    covered: set[int] = set()
    for severity in (FAILURE, HINT):
        alike = [index for index, level in found.items() if level == severity]
        first = [index for index in alike if index in news]
        best = max(first, key=lambda index: scores[index], default=0)
        for index in [*([best] if scores[best] > 0 else []), *first[:1], *alike[-1:], *first]:
            if index not in covered:
                trace = trace_at(lines, index)
                covered.update((*trace.core, *trace.rest))
                yield trace
