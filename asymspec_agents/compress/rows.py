"""Which rows of many alike are worth keeping: their bearing on the query, and what is unusual about them.

Rows are JSON objects, lines of a table or of a log. Costs are linear with a small factor: words are looked up
as substrings first, and only the best rows are ranked as texts.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .ranking import NoRanker, Ranker, relevance

__all__ = ["Columns", "describe", "describe_columns", "keeping_order", "row_scores"]

_MAX_RANKED = 512  # rows
_MAX_SOUGHT_TERMS = 48
_MAX_OUTLIERS = 8
_MAX_COLUMNS = 12
_MAX_VALUE_CHARS = 30
_MAX_CATEGORIES = 12
_SHOWN_CATEGORIES = 4
_RARE_SHARE = 0.02
_FENCE = 3.0  # quartile distances beyond the quartiles: Tukey's "far out"


def row_scores(ranker: Ranker, rows: Sequence[str], wanted: Sequence[str]) -> list[float]:
    """A score in [0, 1] for each row against the wanted terms; of many rows, all but the best 512 score 0."""
    if not wanted or isinstance(ranker, NoRanker):
        return [0.0] * len(rows)
    if len(rows) <= _MAX_RANKED:
        return relevance(ranker, rows, wanted)
    folded = [row.casefold() for row in rows]
    weights: dict[int, float] = {}
    for term in wanted[:_MAX_SOUGHT_TERMS]:
        holders = [index for index, row in enumerate(folded) if term in row]
        if holders and len(holders) < len(rows):
            weight = math.log(len(rows) / len(holders))
            for index in holders:
                weights[index] = weights.get(index, 0.0) + weight
    best = sorted(heapq.nsmallest(_MAX_RANKED, weights, key=lambda index: (-round(weights[index], 6), index)))
    scores = [0.0] * len(rows)
    for index, score in zip(best, relevance(ranker, [rows[i] for i in best], wanted), strict=True):
        scores[index] = score
    return scores


def keeping_order(num_rows: int, scores: Sequence[float], outliers: Sequence[int] = ()) -> list[int]:
    """The order in which rows are kept: the best match, the first, the last, further matches and outliers in
    turn, the rest."""
    matches = sorted((i for i in range(num_rows) if scores[i] > 0), key=lambda i: -scores[i])
    mixed = [index for pair in zip(matches[1:], outliers, strict=False) for index in pair]
    order = [*matches[:1], 0, num_rows - 1, *mixed, *matches[1:], *outliers, *range(num_rows)]
    return list(dict.fromkeys(order))


@dataclass(frozen=True, slots=True)
class Columns:
    """What a set of rows has in its columns: one line of text, and the rows that stand out."""

    summary: str
    outliers: list[int]


def describe(rows: Sequence[Mapping[str, object]]) -> Columns:
    """Ranges and commonest values of the columns, as written; rare values, far values, other columns.

    Cells are strings, numbers as written among them; other values are named by their type.
    """
    shapes = Counter(tuple(row) for row in rows)
    usual = max(shapes, key=lambda shape: shapes[shape], default=())
    rare = [shape for shape in shapes if shapes[shape] <= len(rows) * _RARE_SHARE]
    outliers: dict[int, None] = {}
    if rare:
        seen = {shape: index for index, shape in reversed(list(enumerate(map(tuple, rows))))}
        outliers.update(dict.fromkeys(seen[shape] for shape in rare[:_MAX_OUTLIERS]))
    columns = [[row.get(name) for row in rows] for name in usual[:_MAX_COLUMNS]]
    return _described(usual, columns, outliers)


def describe_columns(names: Sequence[str], columns: Sequence[Sequence[str]]) -> Columns:
    """The same of a table's columns, which are as long as each other."""
    return _described(names, columns[:_MAX_COLUMNS], {})


def _described(
    names: Sequence[str], columns: Sequence[Sequence[object]], outliers: dict[int, None]
) -> Columns:
    told: list[str] = []
    far: list[int] = []
    for name, cells in zip(names, columns, strict=False):
        if all(isinstance(cell, str) for cell in cells):
            text, unusual, is_far = _column([str(cell) for cell in cells])
            if is_far:
                far += unusual
            else:
                outliers.update(dict.fromkeys(unusual))
        else:
            text = _mixed(cells)
        told.append(f"{name[:_MAX_VALUE_CHARS]} {text}")
    if len(names) > _MAX_COLUMNS:
        told.append(f"{len(names) - _MAX_COLUMNS:,} more")
    outliers.update(dict.fromkeys(far))
    return Columns("; ".join(told), list(outliers)[:_MAX_OUTLIERS])


def _column(cells: list[str]) -> tuple[str, list[int], bool]:
    """The column in words, the rows that stand out, and whether by a far number rather than a rare value."""
    counts = Counter(cells)
    numbers = _numbers(cells) if len(counts) > _SHOWN_CATEGORIES else None
    if numbers is None and len(counts) <= min(_MAX_CATEGORIES, max(len(cells) // 4, 1)):
        common = counts.most_common()
        shown = [_value(value) + (f" ×{number:,}" if len(counts) > 1 else "") for value, number in common]
        text = ", ".join(shown[:_SHOWN_CATEGORIES])
        if len(common) > _SHOWN_CATEGORIES:
            text += f", {len(common) - _SHOWN_CATEGORIES} others"
        rare = [value for value, number in common if number <= len(cells) * _RARE_SHARE]
        return text, [cells.index(value) for value in rare], False
    if numbers is not None:
        lowest, highest = (numbers.index(pick(numbers)) for pick in (min, max))
        in_order = sorted(numbers)
        low, high = in_order[len(numbers) // 4], in_order[len(numbers) * 3 // 4]
        reach = _FENCE * (high - low)
        far = [i for i in (lowest, highest) if reach and not low - reach <= numbers[i] <= high + reach]
        return f"{_value(cells[lowest])}…{_value(cells[highest])}", far, True
    if max(map(len, cells)) <= _MAX_VALUE_CHARS:
        return f"{_value(min(cells))}…{_value(max(cells))} ({len(counts):,} different)", [], True
    return "text", [], True


def _numbers(cells: list[str]) -> list[float] | None:
    try:
        numbers = list(map(float, cells))
    except ValueError:
        return None
    return None if any(map(math.isnan, numbers)) else numbers


def _value(cell: str) -> str:
    return cell if 0 < len(cell) <= _MAX_VALUE_CHARS and cell.isprintable() else "(text)" if cell else '""'


def _mixed(cells: Sequence[object]) -> str:
    names = Counter(
        "text" if isinstance(cell, str) else "null" if cell is None else type(cell).__name__ for cell in cells
    )
    words = {"dict": "object", "bool": "true/false"}
    return "/".join(words.get(name, name) for name in sorted(names))
