"""An asker for suites' tests: it answers from a list and keeps what it was asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asymspec_agents.backends import Backend, ChatResponse, Usage
from asymspec_agents.messages import Message, ToolSpec, parse_messages
from asymspec_agents.router import ContextRouter
from evals.cells import Cell
from evals.records import Call, Output
from evals.sample import LongPart


class OneCall:
    """Answers each call with the next text; `messages` and `long_parts` are those of the last one."""

    def __init__(self, *answers: str, sees_images: bool = False) -> None:
        self.cell = Cell.parse("floor on none")
        self.sees_images = sees_images
        self.messages: tuple[Message, ...] = ()
        self.long_parts: tuple[LongPart, ...] = ()
        self._answers = list(answers)
        self._calls: list[Call] = []

    def ask(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[ToolSpec | Mapping[str, Any]] = (),
        *,
        query: str = "",
        long_parts: Sequence[LongPart] = (),
        max_tokens: int,
        stop: Sequence[str] = (),
    ) -> ChatResponse:
        self.messages, self.long_parts = parse_messages(messages), tuple(long_parts)
        text = self._answers.pop(0)
        self._calls.append(Call(text=text, segments=((text, "plain"),)))
        return ChatResponse(text, (), "stop", Usage(0, 0), None)

    def output(self, answer: str, **fields: Any) -> Output:
        return Output(answer=answer, calls=tuple(self._calls), **fields)

    def backend(self) -> Backend:
        raise NotImplementedError

    def router(self) -> ContextRouter:
        raise NotImplementedError

    def shown(self, part: int) -> str:
        """The text at a part of the last message: its own, or the one that a compressed view shows there."""
        place = len(self.messages) - 1
        for long in self.long_parts:
            if (long.message, long.part) == (place, part) and long.text is not None:
                return long.text
        content = self.messages[place].content
        assert isinstance(content, tuple)
        text = content[part].text
        assert text is not None
        return text
