"""Keeping some lines of a text, by preference, with a marker at every gap. Logs, tables and code use it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from ..tokens import TokenCounter
from .marker import left_out, short_reference

__all__ = ["select_rows", "split_lines"]

_MAX_MISSES = 50
_NUM_FILLINGS = 3
_MAX_BLANK = 3  # blank rows that stay as they are
_MAX_COUNTED_ROWS = 2_000
_NUM_SAMPLED_ROWS = 500


def split_lines(text: str) -> list[str]:
    """The lines of `text` without their ends (only LF and CR LF end a line)."""
    return [line.removesuffix("\r") for line in text.split("\n")]


def select_rows(
    text: str,
    rows: Sequence[str],
    order: Iterable[int],
    target_tokens: int,
    counter: TokenCounter,
    *,
    unit: str,
    mark: Callable[[str], str] = str,
) -> str | None:
    """The rows that fit, tried in `order`, as text with gap markers; None where not even the first does.

    `text` is the original that the last marker names; `unit` is what a row is called, in the plural; `mark`
    turns a marker into a line of the text's own language (a comment, say). A row of several lines counts as
    one.
    """
    reference = short_reference(text)
    gap_tokens = counter.count(_gap_marker(len(rows), unit) + "\n")
    remaining = iter(order)
    cost_of = _costs(rows, counter)
    kept: set[int] = set()
    rendition = None
    slack = target_tokens - counter.count("\n" + mark(left_out(len(text), reference)))
    # Gaps that close again leave room; each filling after the first uses what the one before left.
    for _ in range(_NUM_FILLINGS):
        added = _fill(remaining, kept, slack, gap_tokens, cost_of)
        while added:
            attempt = _render(text, rows, kept.union(added), reference, unit, mark)
            slack = target_tokens - counter.count(attempt)
            if slack >= 0:
                break
            del added[-max(1, len(added) // 20) :]
        if not added:
            break
        kept.update(added)
        rendition = attempt
    return rendition


def _costs(rows: Sequence[str], counter: TokenCounter) -> Callable[[int], int]:
    """The tokens of a row by its index; of very many rows by their length, from a sample of them all."""
    if len(rows) <= _MAX_COUNTED_ROWS:
        return lambda index: counter.count(rows[index] + "\n")
    sample = rows[:: len(rows) // _NUM_SAMPLED_ROWS]
    density = sum(counter.count(row + "\n") for row in sample) / sum(len(row) + 1 for row in sample)
    return lambda index: math.ceil((len(rows[index]) + 1) * density)


def _fill(
    remaining: Iterable[int],
    kept: set[int],
    budget: int,
    gap_tokens: int,
    cost_of: Callable[[int], int],
) -> list[int]:
    added: dict[int, None] = {}
    misses = 0
    for index in remaining:
        if index in kept or index in added:
            continue
        is_apart = not any(near in kept or near in added for near in (index - 1, index + 1))
        cost = cost_of(index) + gap_tokens * is_apart
        if cost <= budget:
            budget -= cost
            added[index] = None
        else:
            misses += 1
        if misses > _MAX_MISSES or budget <= 0:
            break
    return list(added)


def _gap_marker(num_rows: int, unit: str) -> str:
    return f"[… {num_rows:,} {unit if num_rows != 1 else unit.removesuffix('s')} left out …]"


def _render(
    text: str, rows: Sequence[str], kept: set[int], reference: str, unit: str, mark: Callable[[str], str]
) -> str:
    written: list[str] = []
    next_row = num_left_out = 0
    for index in (*sorted(kept), len(rows)):
        gap = rows[next_row:index]
        if gap:
            if len(gap) <= _MAX_BLANK and not any(map(str.strip, gap)):
                written += gap  # shorter than the marker that would say so
            else:
                num_left_out += sum(map(len, gap)) + len(gap)
                written.append(mark(_gap_marker(len(gap), unit)))
        written += rows[index : index + 1]
        next_row = index + 1
    return "\n".join([*written, mark(left_out(max(num_left_out, 1), reference))])
