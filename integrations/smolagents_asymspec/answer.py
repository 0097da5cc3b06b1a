"""A backend's answer as smolagents takes it: a ChatMessage, or a stream of deltas that adds up to one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from asymspec_agents.backends import ChatDelta, ChatResponse, Usage
from asymspec_agents.messages import ToolCall

from ._compat import (
    ChatMessage,
    ChatMessageStreamDelta,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    ChatMessageToolCallStreamDelta,
    MessageRole,
    TokenUsage,
)
from .stops import StopCutter, cut_at_stop
from .tool_calls import call_id

__all__ = ["chat_message", "stream_deltas"]


def chat_message(response: ChatResponse, stop: Sequence[str]) -> ChatMessage:
    """The whole answer, cut at the first stop string; content is None for an answer of tool calls only."""
    calls = _calls(response.tool_calls, set())
    content = cut_at_stop(response.content, stop)
    return ChatMessage(
        role=MessageRole.ASSISTANT,
        content=content if content or not calls else None,
        tool_calls=calls or None,
        raw=response,
        token_usage=_token_usage(response.usage),
    )


def stream_deltas(deltas: Iterator[ChatDelta], stop: Sequence[str]) -> Iterator[ChatMessageStreamDelta]:
    """The answer step by step: texts, tool calls with their index, and at last the usage, once.

    smolagents adds up the usage of all deltas and, while planning, reads only deltas whose content is a text.
    """
    cutter = StopCutter(stop)
    ids: set[str] = set()
    num_calls = 0
    usage: Usage | None = None
    for delta in deltas:
        text = cutter.feed(delta.content)
        if text:
            yield ChatMessageStreamDelta(content=text)
        calls = _calls(delta.tool_calls, ids)
        if calls:
            yield ChatMessageStreamDelta(
                content="", tool_calls=[_call_delta(call, num_calls + at) for at, call in enumerate(calls)]
            )
            num_calls += len(calls)
        usage = delta.usage or usage
    if rest := cutter.finish():
        yield ChatMessageStreamDelta(content=rest)
    if usage is not None:
        yield ChatMessageStreamDelta(content="", token_usage=_token_usage(usage))


def _calls(calls: Sequence[ToolCall], ids: set[str]) -> list[ChatMessageToolCall]:
    """The calls with ids that are not empty and not in `ids`, which takes them in.

    smolagents keeps the calls of a step by their id: of two with the same one, only the last would be run.
    """
    made = []
    for call in calls:
        if call.function is None:
            continue
        name, arguments = call.function.name, call.function.arguments
        identity = call.id
        if not identity or identity in ids:
            identity = call_id(f"{name}\n{arguments}", len(ids))
        ids.add(identity)
        function = ChatMessageToolCallFunction(name=name, arguments=arguments)
        made.append(ChatMessageToolCall(function=function, id=identity, type="function"))
    return made


def _call_delta(call: ChatMessageToolCall, index: int) -> ChatMessageToolCallStreamDelta:
    function = ChatMessageToolCallFunction(
        name=call.function.name, arguments=_as_text(call.function.arguments)
    )
    return ChatMessageToolCallStreamDelta(index=index, id=call.id, type="function", function=function)


def _as_text(arguments: Any) -> str:
    """smolagents concatenates streamed arguments, so they have to be text."""
    if isinstance(arguments, str):
        return arguments
    return "{}" if arguments is None else json.dumps(arguments, ensure_ascii=False)


def _token_usage(usage: Usage) -> TokenUsage:
    return TokenUsage(input_tokens=usage.prompt_tokens or 0, output_tokens=usage.completion_tokens or 0)
