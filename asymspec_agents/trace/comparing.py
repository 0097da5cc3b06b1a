"""Two traces side by side: calls paired turn by turn, and where their answers part."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .story import Call, Run, Story

__all__ = ["Pair", "compare"]


@dataclass(frozen=True, slots=True)
class Pair:
    """The same turn in both traces; None where one has no such turn.

    `is_same` is None where an answer's text is not known. `common_chars` is how many characters both answers
    begin with, `common_tokens` how many tokens (None without token ids).
    """

    left: Call | None
    right: Call | None
    is_same: bool | None = None
    common_chars: int | None = None
    common_tokens: int | None = None


def compare(left: Story, right: Story) -> tuple[Pair, ...]:
    """Every turn of both, in order: runs on one task belong together, others in the order of the traces."""
    pairs: list[Pair] = []
    rest = list(right.runs)
    for run in left.runs:
        match = _partner(run, rest)
        if match is not None:
            rest.remove(match)
        pairs.extend(_pairs(run.calls, match.calls if match is not None else ()))
    for run in rest:
        pairs.extend(_pairs((), run.calls))
    return tuple(pairs)


def _partner(run: Run, others: Sequence[Run]) -> Run | None:
    same_task = [other for other in others if other.task_digest == run.task_digest]
    same_arm = [other for other in same_task if other.arm == run.arm]
    candidates = same_arm or same_task
    if not candidates and run.task_digest is None:
        candidates = list(others)
    return candidates[0] if candidates else None


def _pairs(left: Sequence[Call], right: Sequence[Call]) -> list[Pair]:
    return [
        _pair(left[at] if at < len(left) else None, right[at] if at < len(right) else None)
        for at in range(max(len(left), len(right)))
    ]


def _pair(left: Call | None, right: Call | None) -> Pair:
    if left is None or right is None:
        return Pair(left, right)
    one, other = left.answer, right.answer
    if one is None or other is None:
        return Pair(left, right)
    return Pair(
        left, right, one == other, _common(one, other), _common_tokens(_token_ids(left), _token_ids(right))
    )


def _token_ids(call: Call) -> list[int] | None:
    ids: list[int] = []
    for block in call.blocks:
        if block.token_ids is None:
            return None
        ids.extend(block.token_ids)
    return ids[: call.response.num_tokens] if call.response is not None else ids


def _common_tokens(one: list[int] | None, other: list[int] | None) -> int | None:
    return None if one is None or other is None else _common(one, other)


def _common(one: Sequence[object], other: Sequence[object]) -> int:
    for at, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return at
    return min(len(one), len(other))
