"""Which messages of a conversation one summary stands for: a fold over the list from its start.

The summary covers all turns but the last `keep_last` of the call in which it is made, and is extended only
when older turns that it does not cover have grown past the high water again: in between, calls begin alike.
Where it ends depends on the sizes of the messages alone, not on any summary's text, so every process covers
the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from ..errors import ConfigurationError
from ..messages import Message
from ..views.prompt_size import as_written
from ..views.turns import SYSTEM_ROLES, History

__all__ = ["Cut", "HistorySummary", "cuts", "transcript"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HistorySummary:
    """When a history is summarized; raises ConfigurationError.

    `keep_last`: turns that always stay as messages. A summary is made, or extended, where the messages before
    these that it does not cover have more than `high_water_tokens`, about as the compressed view shows them.
    That view has the summary (at most `summary_tokens`), about that many tokens, and the last turns.
    """

    keep_last: int = 4
    high_water_tokens: int = 6_000
    summary_tokens: int = 800

    def __post_init__(self) -> None:
        for name, least in (("keep_last", 1), ("high_water_tokens", 1), ("summary_tokens", 100)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigurationError(f"{name}={value!r}: must be an integer of at least {least}")


@dataclass(frozen=True, slots=True)
class Cut:
    """A summary covers the list's first `end` messages and `num_turns` turns (system messages aside)."""

    end: int
    num_turns: int


def cuts(
    messages: Sequence[Message], history: History, sizes: Sequence[int], policy: HistorySummary
) -> tuple[Cut, ...]:
    """Every summary made up to the call at hand, each an extension of the one before; `sizes` in tokens."""
    starts = {num_turns: end for end, num_turns in history.calls[:-1]}
    is_whole = _whole_at(messages)
    made: list[Cut] = []
    before = Cut(0, 0)
    before_message = [0, *accumulate(sizes)]
    for _, num_turns in history.calls:
        turn = num_turns - policy.keep_last
        while turn > before.num_turns and not (turn in starts and is_whole[starts[turn]]):
            turn -= 1
        if turn <= before.num_turns:
            continue
        if before_message[starts[turn]] - before_message[before.end] > policy.high_water_tokens:
            before = Cut(starts[turn], turn)
            made.append(before)
    return tuple(made)


def _whole_at(messages: Sequence[Message]) -> list[bool]:
    """For each index, whether a list cut there parts no call from its result."""
    parted = [0] * (len(messages) + 1)
    called_at: dict[str, int] = {}
    for index, message in enumerate(messages):
        for call in message.tool_calls or ():
            if call.id is not None:
                called_at[call.id] = index
        asked = called_at.get(message.tool_call_id) if message.tool_call_id is not None else None
        if asked is not None:
            parted[asked + 1] += 1
            parted[index + 1] -= 1
    whole, depth = [], 0
    for change in parted:
        depth += change
        whole.append(depth == 0)
    return whole


def transcript(messages: Sequence[Message]) -> str:
    """The messages as a text for a reader who needs no wire format; other parts than text by their kind."""
    return "\n\n".join(_said(message) for message in messages if message.role not in SYSTEM_ROLES)


def _said(message: Message) -> str:
    who = message.role if message.name is None else f"{message.role} {message.name}"
    lines = []
    if isinstance(message.content, str):
        lines.append(message.content)
    for part in message.content if isinstance(message.content, tuple) else ():
        lines.append(f"[{part.type}]" if part.text is None else part.text)
    for call in message.tool_calls or ():
        if call.function is not None:
            lines.append(f"[calls {call.function.name}: {as_written(call.function.arguments)}]")
    return f"{who}: " + "\n".join(lines)
