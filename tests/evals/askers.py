"""An asker over a script: what a suite asks, and the output it makes of the answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asymspec_agents.backends import Backend, ChatRequest, ChatResponse, PromptCounter, ScriptedBackend
from asymspec_agents.messages import Message, ToolSpec, parse_messages, parse_tools
from asymspec_agents.router import ContextRouter
from evals.cells import Cell
from evals.records import Output
from evals.sample import LongPart

__all__ = ["ScriptedAsker", "ScriptedJudge"]


class _Counting(ScriptedBackend):
    counter: PromptCounter | None = None

    @property
    def prompt_counter(self) -> PromptCounter | None:
        return self.counter


class ScriptedAsker:
    """Answers from a script; `asked` are the arguments of every call, messages parsed."""

    def __init__(self, replies: Iterable[str | ChatResponse], counter: PromptCounter | None = None) -> None:
        self._backend = _Counting(replies)
        self._backend.counter = counter
        self.asked: list[dict[str, Any]] = []

    @property
    def cell(self) -> Cell:
        return Cell.parse("ceiling")

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
        parsed = parse_messages(messages)
        self.asked.append(
            {"messages": parsed, "query": query, "long_parts": tuple(long_parts), "max_tokens": max_tokens}
        )
        return self._backend.generate(
            ChatRequest(messages=parsed, tools=parse_tools(tools), max_tokens=max_tokens, stop=tuple(stop))
        )

    def backend(self) -> Backend:
        return self._backend

    def router(self) -> ContextRouter:
        return ContextRouter()

    def output(self, answer: str, **fields: Any) -> Output:
        return Output(answer=answer, **fields)


class ScriptedJudge:
    """A judge that gives these replies in order; `prompts` are what it was asked."""

    name = "scripted-judge"

    def __init__(self, *replies: str) -> None:
        self._replies = iter(replies)
        self.prompts: list[str] = []

    def ask(self, prompt: str, *, system: str | None = None, max_tokens: int = 512) -> str:
        self.prompts.append(prompt)
        return next(self._replies)
