"""A chat model that reads one view and answers from a script, and a tool with long results, for agents."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.tools import tool
from langchain_core.utils.function_calling import convert_to_openai_tool

from asymspec_agents.trace import MemoryRecorder

__all__ = ["LOG", "Sent", "Single", "assert_paired", "calling", "read_log", "recorded", "run"]

LOG = "\n".join(f"12:{n // 60:02}:{n % 60:02} mail: request {n} served in {n % 37} ms" for n in range(900))
RULES = " ".join(f"Rule {n}: the log of service {n} is kept for {n * 7 % 31} days." for n in range(1, 21))


@tool
def read_log(service: str) -> str:
    """Reads a service's log."""
    return f"log of {service}\n{LOG}"


read_log.description = f"Reads a service's log of today. {RULES}"


class Sent:
    """What one call sent to the model."""

    def __init__(self, messages: Sequence[BaseMessage], kwargs: dict[str, Any]) -> None:
        self.messages = list(messages)
        self.kwargs = kwargs

    @property
    def tools(self) -> list[dict[str, Any]]:
        return list(self.kwargs.get("tools", ()))


class Single(BaseChatModel):
    """Answers with the script's messages, word by word where it streams; `sent` has every call."""

    script: list[AIMessage]
    sent: list[Sent] = []  # noqa: RUF012 - pydantic copies it

    @property
    def _llm_type(self) -> str:
        return "single"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **kwargs)

    def _next(self, messages: list[BaseMessage], kwargs: dict[str, Any]) -> AIMessage:
        self.sent.append(Sent(messages, kwargs))
        return self.script[len(self.sent) - 1].model_copy(deep=True)

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self._next(messages, kwargs))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        answer = self._next(messages, kwargs)
        for word in str(answer.content).split(" ") if answer.content else ():
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        yield ChatGenerationChunk(
            message=AIMessageChunk(
                content="",
                tool_call_chunks=[
                    {"name": call["name"], "args": json.dumps(call["args"]), "id": call["id"], "index": index}
                    for index, call in enumerate(answer.tool_calls)
                ],
                chunk_position="last",
            )
        )


def calling(name: str, *identities: str, **args: Any) -> AIMessage:
    """An answer that calls one tool, once per id, all with the same arguments."""
    return AIMessage("", tool_calls=[{"name": name, "args": args, "id": identity} for identity in identities])


def assert_paired(messages: Sequence[BaseMessage]) -> None:
    """Every call has its one result right behind it, and no result lacks its call."""
    waiting: list[str | None] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            assert message.tool_call_id in waiting
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting
            waiting = [call["id"] for call in message.tool_calls] if isinstance(message, AIMessage) else []
    assert not waiting


def recorded(recorder: MemoryRecorder, kind: str) -> list[dict[str, Any]]:
    """The fields of each event of one kind."""
    return [event.model_dump() for event in recorder.events if event.event == kind]


def run(agent: Any, question: str, *, how: str = "invoke", **config: Any) -> dict[str, Any]:
    """The agent's last state, by one of LangChain's four ways of running it."""
    given = {"messages": [{"role": "user", "content": question}]}
    if how == "invoke":
        return dict(agent.invoke(given, config or None))
    if how == "ainvoke":
        return dict(asyncio.run(agent.ainvoke(given, config or None)))
    if how == "stream":
        return dict(list(agent.stream(given, config or None, stream_mode="values"))[-1])

    async def last() -> dict[str, Any]:
        states: AsyncIterator[Any] = agent.astream(given, config or None, stream_mode="values")
        return dict([state async for state in states][-1])

    return asyncio.run(last())
