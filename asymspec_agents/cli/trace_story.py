"""Calls and pairs of calls in the terminal: bars, and answers in which every token shows where it came from.

In colour a fused token is yellow and underlined, a bonus token blue, and one that the full view changed bold
with what the verifier alone would have emitted behind it; without colour the latter stand as
`[token|verifier's]`.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .table import print_table, printable

if TYPE_CHECKING:
    from ..trace import PositionRecord
    from ..trace.comparing import Pair
    from ..trace.story import Call, Story

__all__ = ["print_call", "print_pairs"]

MAX_TOKENS = 400  # of an answer among others
BAR = 30
_COLOURS = {"fused": "\x1b[33;4m", "bonus": "\x1b[34m"}
_RESET = "\x1b[0m"


def print_call(call: Call, *, is_whole: bool) -> None:
    """One call: what was read, how long its stages took, and the answer."""
    stages = "; ".join(f"{name} {_seconds(value)}" for name, value in call.latency.known().items())
    ending = call.ending or "no end in the trace"
    print(f"\n#{call.number} {printable(call.arm or 'call')} · {printable(ending)}  {stages}")
    most = max(call.full_tokens or 0, call.compressed_tokens or 0, 1)
    computed = call.computed_tokens
    for name, total, role in (
        ("full", call.full_tokens, "drafter"),
        ("compressed", call.compressed_tokens, "verifier"),
    ):
        if total is not None:
            new = getattr(computed, role) if computed is not None else total
            print(f"  {name:<10} {_bar(new, total, most)} {total:,}, {min(new, total):,} computed")
    text = _answer(call.positions(), None if is_whole else MAX_TOKENS)
    if not text and call.answer is not None:
        text = _lines(call.answer)
    if text:
        print("  " + text.replace("\n", "\n  "))
    if call.num_changed is not None:
        print(f"  changed by the full view: {call.num_changed} of {len(call.positions())} tokens")


def _bar(computed: int, total: int, most: int) -> str:
    width = max(1, round(BAR * total / most)) if total else 0
    new = round(width * min(computed, total) / total) if total else 0
    return ("█" * new + "░" * (width - new)).ljust(BAR)


def _seconds(value: float) -> str:
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.2f} s"


def _answer(positions: Sequence[PositionRecord], most: int | None) -> str:
    """The answer token by token; empty where the tokens have no texts."""
    if not any(position.text is not None for position in positions):
        return ""
    is_coloured = sys.stdout.isatty()
    shown = "".join(_token(position, is_coloured) for position in positions[:most])
    left = len(positions) - (most or len(positions))
    return shown + (f" … {left:,} more tokens (--call shows them)" if left > 0 else "")


def _token(position: PositionRecord, is_coloured: bool) -> str:
    text = _lines(position.text or "")
    if not text:  # a piece of a character, or a special token
        token = position.token or ""
        text = _lines(token).replace("\n", "↵") if token and "\N{REPLACEMENT CHARACTER}" not in token else "·"
    alone = ""
    if position.is_changed and position.argmax is not None:
        alone = _lines(position.argmax).replace("\n", "↵")
    if not is_coloured:
        return f"[{text}|{alone}]" if alone else text
    colour = _COLOURS.get(position.origin, "")
    if alone:
        return f"{colour}\x1b[1m{text}{_RESET}\x1b[2m[{alone}]{_RESET}"
    return f"{colour}{text}{_RESET}" if colour and text else text


def _lines(text: str) -> str:
    """The text without what would drive the terminal; its line ends stay."""
    return "\n".join(printable(line) for line in text.split("\n"))


def print_pairs(left: Story, right: Story, pairs: Sequence[Pair]) -> None:
    """Two traces: a line for each turn, and both answers from where they part."""
    print(f"A: {printable(left.title)}\nB: {printable(right.title)}\n")
    columns = ("turn", "A", "B", "answers", "A tokens", "B tokens", "A accepted", "B accepted", "A s", "B s")
    print_table(columns, [_pair_row(number, pair) for number, pair in enumerate(pairs, start=1)])
    for number, pair in enumerate(pairs, start=1):
        if pair.is_same is False and pair.left is not None and pair.right is not None:
            start = max(0, (pair.common_chars or 0) - 40)
            print(f"\nturn {number} parts at character {(pair.common_chars or 0) + 1}:")
            for name, call in (("A", pair.left), ("B", pair.right)):
                text = (call.answer or "")[start : start + 300].replace("\n", "↵")
                print(f"  {name}: {'…' if start else ''}{printable(text)}")


def _pair_row(number: int, pair: Pair) -> tuple[str, ...]:
    said = "the same" if pair.is_same else "not recorded" if pair.is_same is None else "part"
    if pair.left is None or pair.right is None:
        said = "only in one"
    calls = (pair.left, pair.right)
    return (
        str(number),
        *("-" if call is None else f"#{call.number} {call.arm or ''}" for call in calls),
        said,
        *("-" if call is None else f"{call.metrics.num_response_tokens:,}" for call in calls),
        *("-" if call is None else _rate(call.metrics.acceptance_rate) for call in calls),
        *("-" if call is None else f"{float(call.metrics.elapsed_s):.2f}" for call in calls),
    )


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
