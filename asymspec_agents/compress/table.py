"""Tables as text (CSV, TSV, Markdown, aligned columns): the header, then the rows that matter, unchanged."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise

from ..tokens import TokenCounter
from .base import Rendition
from .headtail import HeadTail
from .lines import select_rows, split_lines
from .ranking import Ranker, default_ranker
from .rows import Columns, describe_columns, keeping_order, row_scores
from .terms import query_terms

__all__ = ["Table"]

_DELIMITERS = ("\t", "|", ",", ";")
_NUMERIC = re.compile(r"[-+]?[0-9.]+$")
_MIN_DESCRIBED = 8
_SUMMARY_SHARE = 4  # a summary takes at most one part in so many of the target
_RULE = re.compile(r"^[\s|+:=─━┼-]+$")  # the line under a Markdown or drawn header


@dataclass(frozen=True, slots=True)
class Table:
    """Keeps the header, the first and last rows and those that match the query, each whole and in order."""

    ranker: Ranker = field(default_factory=default_ranker)
    fallback: HeadTail = field(default_factory=HeadTail)

    @property
    def configuration(self) -> str:
        return f"table/3(ranker={self.ranker.configuration},fallback={self.fallback.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "table", "table")
        rows = _rows(text)
        num_header = 2 if len(rows) > 1 and _RULE.match(rows[1][:1000]) else 1
        scores = row_scores(self.ranker, rows, query_terms(query))
        columns = _columns(rows, num_header)
        outliers = [num_header + index for index in columns.outliers]
        order = [*range(num_header), *keeping_order(len(rows), scores, outliers)]
        told = f"[… of all {len(rows) - num_header:,} rows: {columns.summary} …]" if columns.summary else ""
        if counter.count(told) * _SUMMARY_SHARE > target_tokens:
            told = ""
        room = target_tokens - (counter.count(f"{told}\n") if told else 0)
        shortened = select_rows(text, rows, order, room, counter, unit="rows")
        if shortened is not None and told:
            kept, _, marker = shortened.rpartition("\n")
            shortened = f"{kept}\n{told}\n{marker}"
            if counter.count(shortened) > target_tokens:
                shortened = f"{kept}\n{marker}"
        if shortened is None:
            return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, "table", "table")


def _columns(rows: list[str], num_header: int) -> Columns:
    """What the columns hold, where the first row names them and the others have as many cells."""
    header = rows[0].strip("| ")
    delimiter = max(_DELIMITERS, key=header.count)
    names = [name.strip().strip('"') for name in header.split(delimiter)]
    body = rows[num_header:]
    if len(body) < _MIN_DESCRIBED or not 1 < len(names) == len(set(names)) or any(map(_NUMERIC.match, names)):
        return Columns("", [])
    if delimiter != "|" and all(row.count(delimiter) == len(names) - 1 for row in body):
        together = delimiter.join(body)  # splitting once is much faster than row by row
        cells = together.split(delimiter)
        if " " in together:
            cells = list(map(str.strip, cells))
        return describe_columns(names, [cells[start :: len(names)] for start in range(len(names))])
    split = [[cell.strip() for cell in row.strip("| ").split(delimiter)] for row in body]
    if sum(len(row) == len(names) for row in split) < 0.9 * len(split):
        return Columns("", [])
    # A row of another width (a delimiter within quotes, say) is read as far as it goes.
    missing = [""] * len(names)
    even = [row if len(row) == len(names) else [*row, *missing][: len(names)] for row in split]
    return describe_columns(names, list(zip(*even, strict=True)))


def _rows(text: str) -> list[str]:
    """The rows; lines inside a quoted CSV field belong to one row (where quotes pair up at all)."""
    lines = split_lines(text.rstrip("\n"))
    if '"' not in text:
        return lines
    starts: list[int] = []
    is_open = False
    for index, line in enumerate(lines):
        if not is_open:
            starts.append(index)
        is_open ^= line.count('"') % 2 == 1
    if is_open:
        return lines
    return ["\n".join(lines[start:end]) for start, end in pairwise([*starts, len(lines)])]
