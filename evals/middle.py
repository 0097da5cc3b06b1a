"""Cuts the middle out of a text, so that its beginning and its end keep a number of tokens each."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["without_middle"]


def without_middle(text: str, head_tokens: int, tail_tokens: int, count: Callable[[str], int]) -> str:
    """The longest beginning and the longest end of `text` within these numbers of tokens, put together.

    Nothing is cut where both together reach over the text. The rule is that of THUDM/LongBench, pred.py,
    which cuts the ids; here whole characters are kept, found by halving, so a token at the cut may be split.
    """
    head = _longest(len(text), lambda size: count(text[:size]) <= head_tokens)
    tail = _longest(len(text), lambda size: count(text[len(text) - size :]) <= tail_tokens)
    return text if head + tail >= len(text) else text[:head] + text[len(text) - tail :]


def _longest(limit: int, fits: Callable[[int], bool]) -> int:
    low, high = 0, limit
    while low < high:
        size = (low + high + 1) // 2
        if fits(size):
            low = size
        else:
            high = size - 1
    return low
