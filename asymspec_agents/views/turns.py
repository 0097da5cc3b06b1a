"""Reads a message list as turns: which texts are results, calls or the user's words, and what asked for them.

A turn is one assistant message (a run of them, where a framework splits one answer into several messages) and
the results that follow. Reading is a pure function of the list, and what it says about a message depends on
that message and the ones before it only, so it never changes while a conversation grows (a user message
without text aside: it is a result where an observation follows it).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..messages import Message
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

    `query` is what the text was wanted for: the task's first user message and the call that produced it; of a
    user's text, the other texts of its message, none where it stands alone. `tool` is the name of the tool
    whose result the text is, None where that is not known. `header_chars`: the length of the line at its
    beginning that says which attachment it is the text of, 0 for all other texts.
    """

    message: int
    part: int | None
    text: str
    kind: PartKind
    turn: int | None
    query: str
    tool: str | None = None
    header_chars: int = 0


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
    messages: Sequence[Message],
    observation_markers: tuple[str, ...],
    call_markers: tuple[str, ...],
    task: str | None = None,
    headers: Mapping[tuple[int, int], int] | None = None,
    call_patterns: tuple[str, ...] = (),
) -> History:
    """The history of a message list; its task is the first user message unless one is given.

    A user message's text that begins with an observation marker is a result, unless nothing came before it
    that could have one. An assistant's text with a call marker at the start of a line holds tool calls; so
    does one in which a call pattern is found, whose group `tool` is the tool's name.
    `headers` has the place (message, part) and `header_chars` of each text of an attachment: such a text is
    never the user's words.
    """
    reader = _Reader(observation_markers, call_markers, task, headers or {}, call_patterns)
    for index, message in enumerate(messages):
        reader.read(index, message, messages[index + 1] if index + 1 < len(messages) else None)
    reader.calls.append((len(messages), reader.num_turns))
    parts = tuple(
        replace(part, header_chars=reader.headers[part.message, part.part])
        if part.part is not None and (part.message, part.part) in reader.headers
        else part
        for part in reader.parts
    )
    return History(parts, tuple(reader.calls), tuple(reader.user_messages), reader.num_turns)


class _Reader:
    def __init__(
        self,
        observation_markers: tuple[str, ...],
        call_markers: tuple[str, ...],
        task: str | None,
        headers: Mapping[tuple[int, int], int],
        call_patterns: tuple[str, ...],
    ) -> None:
        self.headers = headers
        self._observation_markers = observation_markers
        self._call_markers = call_markers
        self._call_patterns = tuple(re.compile(pattern) for pattern in call_patterns)
        self._given_task = task is not None
        self._task = _excerpt(task or "")
        self._asked = _Asked()
        self._previous_role = ""
        self.parts: list[TextPart] = []
        self.calls: list[tuple[int, int]] = []
        self.user_messages: list[int] = []
        self.num_turns = 0

    def read(self, index: int, message: Message, following: Message | None) -> None:
        texts = message_texts(message)
        if message.role in ASSISTANT_ROLES:
            self._read_answer(index, message, texts)
        elif message.role in SYSTEM_ROLES:
            self.parts.extend(TextPart(index, part, text, "system", None, "") for part, text in texts)
        elif message.role == USER_ROLE:
            self._read_user(index, message, texts, following)
        else:
            self.num_turns = max(self.num_turns, 1)
            call = self._asked.first(message.tool_call_id)
            for part, text in texts:
                self._add_result(index, part, text, call, message.name)
        self._previous_role = message.role

    def _read_answer(self, index: int, message: Message, texts: list[tuple[int | None, str]]) -> None:
        if self._previous_role not in ASSISTANT_ROLES:
            self.calls.append((index, self.num_turns))
            self.num_turns += 1
            self._asked = _Asked()
        for part, text in texts:
            found = [match for pattern in self._call_patterns for match in pattern.finditer(text)]
            has_call = bool(found) or any(
                text.startswith(mark) or f"\n{mark}" in text for mark in self._call_markers
            )
            kind: PartKind = "call" if has_call else "assistant"
            self.parts.append(TextPart(index, part, text, kind, self.num_turns - 1, self._task))
            if has_call:
                self._asked.add_text(text, {match.groupdict().get("tool") for match in found})
        self._asked.add_calls(message)

    def _read_user(
        self,
        index: int,
        message: Message,
        texts: list[tuple[int | None, str]],
        following: Message | None,
    ) -> None:
        words = [(part, text) for part, text in texts if not self._is_attached(index, part)]
        own = [part for part, text in words if not self._is_observation(text)]
        has_only_images = bool(message.content) and not words
        if own or (not words and not (has_only_images and self._leads_to_observation(following))):
            own_texts = {part: _excerpt(text) for part, text in words if part in own}
            own += [part for part, _ in texts if self._is_attached(index, part)]
            if not self.user_messages and not self._given_task:
                self._task = _excerpt("\n".join(own_texts.values()))
            self.user_messages.append(index)
        for part, text in texts:
            if part in own:
                others = "\n".join(other for at, other in own_texts.items() if at != part)
                query = _query(self._task, _excerpt(others)) if others.strip() else ""
                self.parts.append(TextPart(index, part, text, "user", None, query))
            else:
                self._add_result(index, part, text, self._asked.first(None), None)

    def _add_result(self, index: int, part: int | None, text: str, call: _Call, name: str | None) -> None:
        self.num_turns = max(self.num_turns, 1)  # an orphan is in a turn without an answer
        query = _query(self._task, call.asked)
        self.parts.append(TextPart(index, part, text, "result", self.num_turns - 1, query, call.tool or name))

    def _is_attached(self, index: int, part: int | None) -> bool:
        return part is not None and (index, part) in self.headers

    def _is_observation(self, text: str) -> bool:
        may_observe = bool(self.user_messages or self.num_turns)
        return may_observe and text[:MAX_QUERY_CHARS].lstrip().startswith(self._observation_markers)

    def _leads_to_observation(self, following: Message | None) -> bool:
        """Whether an observation follows: images of a step are sent just before its text."""
        if following is None or following.role != USER_ROLE:
            return False
        texts = message_texts(following)
        return bool(texts) and self._is_observation(texts[0][1])


@dataclass(frozen=True, slots=True)
class _Call:
    """What was asked, and of which tool where it was one."""

    asked: str
    tool: str | None


class _Asked:
    """The calls of one turn, by id; several calls may share an id and are then answered in order."""

    def __init__(self) -> None:
        self._by_id: dict[str | None, list[_Call]] = {}
        self._all: list[_Call] = []

    def add_text(self, text: str, tools: set[str | None]) -> None:
        """Calls written as text, and the tools they name where that could be read."""
        self._all.append(_Call(_excerpt(text), tools.pop() if len(tools) == 1 else None))

    def add_calls(self, message: Message) -> None:
        for call in message.tool_calls or ():
            if call.function is None:
                continue
            asked = f"{call.function.name} {_excerpt(as_written(call.function.arguments))}"
            self._all.append(_Call(asked, call.function.name))
            self._by_id.setdefault(call.id, []).append(self._all[-1])

    def first(self, call_id: str | None) -> _Call:
        """The call a result answers; all calls of the turn where the result does not say."""
        waiting = self._by_id.get(call_id) if call_id is not None else None
        if waiting:
            return waiting.pop(0) if len(waiting) > 1 else waiting[0]
        tools = {call.tool for call in self._all}
        asked = _excerpt("\n".join(call.asked for call in self._all))
        return _Call(asked, tools.pop() if len(tools) == 1 else None)


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


def _query(task: str, call: str) -> str:
    return f"{task}\n{call}" if task and call else task or call


def _excerpt(text: str) -> str:
    """At most MAX_QUERY_CHARS of a text: its beginning and its end, where questions stand."""
    if len(text) <= MAX_QUERY_CHARS:
        return text
    half = MAX_QUERY_CHARS // 2
    return f"{text[:half]}\n{text[-half:]}"
