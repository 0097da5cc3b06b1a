"""Reads a message list as turns: which texts are results, calls or the user's words, and what asked for them.

A turn is one assistant message (a run of them, where a framework splits one answer into several messages) and
the results that follow. Reading is a pure function of the list, and what it says about a message depends on
that message and the ones before it only, so it never changes while a conversation grows (a user message
without text aside: it is a result where an observation follows it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .messages import Message
from .prompt_size import as_written

__all__ = ["SYSTEM_ROLES", "History", "PartKind", "TextPart", "message_texts", "read_history"]

PartKind = Literal["system", "user", "assistant", "call", "result"]

SYSTEM_ROLES = frozenset({"system", "developer"})
ASSISTANT_ROLES = frozenset({"assistant", "tool-call"})
USER_ROLE = "user"  # every other role is that of a result: tool, function, tool-response, …

MAX_QUERY_CHARS = 2_000  # of the task, and of the call: enough to rank passages by


@dataclass(frozen=True, slots=True)
class TextPart:
    """One text of one message; `part` is None where the content is a string, `turn` None outside turns.

    `query` is what the text was wanted for: the task's first user message and the call that produced it.
    """

    message: int
    part: int | None
    text: str
    kind: PartKind
    turn: int | None
    query: str


@dataclass(frozen=True, slots=True)
class History:
    """The texts of a message list in order, and the calls of the model it shows.

    `calls` holds for each call of the model, the one at hand last, the number of messages it was sent and the
    number of turns in them. `user_messages` are the indices of the real user messages.
    """

    parts: tuple[TextPart, ...]
    calls: tuple[tuple[int, int], ...]
    user_messages: tuple[int, ...]
    num_turns: int


def read_history(
    messages: Sequence[Message], observation_markers: tuple[str, ...], call_markers: tuple[str, ...]
) -> History:
    """The history of a message list.

    A user message's text that begins with an observation marker is a result, unless nothing came before it
    that could have one. An assistant's text with a call marker at the start of a line holds tool calls.
    """
    parts: list[TextPart] = []
    calls: list[tuple[int, int]] = []
    user_messages: list[int] = []
    num_turns = 0
    task = ""
    asked = _Asked()
    previous_role = ""
    for index, message in enumerate(messages):
        texts = message_texts(message)
        if message.role in ASSISTANT_ROLES:
            if previous_role not in ASSISTANT_ROLES:
                calls.append((index, num_turns))
                num_turns += 1
                asked = _Asked()
            for part, text in texts:
                kind: PartKind = "call" if _has_call(text, call_markers) else "assistant"
                parts.append(TextPart(index, part, text, kind, num_turns - 1, task))
                if kind == "call":
                    asked.add_text(text)
            asked.add_calls(message)
        elif message.role in SYSTEM_ROLES:
            parts.extend(TextPart(index, part, text, "system", None, "") for part, text in texts)
        elif message.role == USER_ROLE:
            may_observe = bool(user_messages or num_turns)
            kinds: list[PartKind] = [
                "result" if may_observe and _starts_with(text, observation_markers) else "user"
                for _, text in texts
            ]
            is_users = "user" in kinds or (
                not texts and not _observation_follows(messages, index, may_observe, observation_markers)
            )
            if is_users:
                own = [
                    (part, text) for (part, text), kind in zip(texts, kinds, strict=True) if kind == "user"
                ]
                if not user_messages:
                    task = _excerpt("\n".join(_excerpt(text) for _, text in own))
                user_messages.append(index)
            if "result" in kinds and not num_turns:
                num_turns = 1  # an orphan: a turn without its assistant message
            for (part, text), kind in zip(texts, kinds, strict=True):
                if kind == "result":
                    parts.append(
                        TextPart(index, part, text, kind, num_turns - 1, _query(task, asked.first(None)))
                    )
                else:
                    others = "\n".join(_excerpt(other) for at, other in own if at != part)
                    parts.append(TextPart(index, part, text, kind, None, _query(task, _excerpt(others))))
        else:
            if not num_turns:
                num_turns = 1
            query = _query(task, asked.first(message.tool_call_id))
            parts.extend(TextPart(index, part, text, "result", num_turns - 1, query) for part, text in texts)
        previous_role = message.role
    calls.append((len(messages), num_turns))
    return History(tuple(parts), tuple(calls), tuple(user_messages), num_turns)


class _Asked:
    """The calls of one turn, by id; several calls may share an id and are then answered in order."""

    def __init__(self) -> None:
        self._by_id: dict[str | None, list[str]] = {}
        self._all: list[str] = []

    def add_text(self, text: str) -> None:
        self._all.append(_excerpt(text))

    def add_calls(self, message: Message) -> None:
        for call in message.tool_calls or ():
            if call.function is None:
                continue
            asked = f"{call.function.name} {_excerpt(as_written(call.function.arguments))}"
            self._all.append(asked)
            self._by_id.setdefault(call.id, []).append(asked)

    def first(self, call_id: str | None) -> str:
        """The call a result answers; all calls of the turn where the result does not say."""
        waiting = self._by_id.get(call_id) if call_id is not None else None
        if waiting:
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]
        return _excerpt("\n".join(self._all))


def message_texts(message: Message) -> list[tuple[int | None, str]]:
    """The plain texts of a message with their places; other kinds of part are no texts to an edit."""
    if message.content is None:
        return []
    if isinstance(message.content, str):
        return [(None, message.content)]

    return [
        (index, part.text)
        for index, part in enumerate(message.content)
        if part.type == "text" and part.text is not None
    ]


def _has_call(text: str, call_markers: tuple[str, ...]) -> bool:
    return any(text.startswith(marker) or f"\n{marker}" in text for marker in call_markers)


def _starts_with(text: str, markers: tuple[str, ...]) -> bool:
    return text[:MAX_QUERY_CHARS].lstrip().startswith(markers)


def _observation_follows(
    messages: Sequence[Message], index: int, may_observe: bool, markers: tuple[str, ...]
) -> bool:
    """Whether the next message brings an observation: images of a step are sent just before its text."""
    if not may_observe or index + 1 >= len(messages) or messages[index + 1].role != USER_ROLE:
        return False
    texts = message_texts(messages[index + 1])
    return bool(texts) and _starts_with(texts[0][1], markers)


def _query(task: str, call: str) -> str:
    return f"{task}\n{call}" if task and call else task or call


def _excerpt(text: str) -> str:
    """At most MAX_QUERY_CHARS of a text: its beginning and its end, where questions stand."""
    if len(text) <= MAX_QUERY_CHARS:
        return text
    half = MAX_QUERY_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"
