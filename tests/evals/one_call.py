"""A scripted asker that may see, and tells what the compressed view of its last call shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from asymspec_agents.backends import ChatResponse
from asymspec_agents.messages import Message
from evals.records import Call, Output
from evals.sample import LongPart
from tests.evals.askers import ScriptedAsker

__all__ = ["OneCall"]


class OneCall(ScriptedAsker):
    """Answers with these texts in order; its outputs have a call for each."""

    def __init__(self, *answers: str, sees_images: bool = False) -> None:
        super().__init__(answers)
        self.sees_images = sees_images
        self._calls: list[Call] = []

    @property
    def messages(self) -> tuple[Message, ...]:
        messages: tuple[Message, ...] = self.asked[-1]["messages"]
        return messages

    @property
    def long_parts(self) -> tuple[LongPart, ...]:
        long_parts: tuple[LongPart, ...] = self.asked[-1]["long_parts"]
        return long_parts

    def ask(self, messages: Sequence[Any], tools: Sequence[Any] = (), **options: Any) -> ChatResponse:
        response = super().ask(messages, tools, **options)
        self._calls.append(Call(text=response.content, segments=((response.content, "plain"),)))
        return response

    def output(self, answer: str, **fields: Any) -> Output:
        return Output(answer=answer, calls=tuple(self._calls), **fields)

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
