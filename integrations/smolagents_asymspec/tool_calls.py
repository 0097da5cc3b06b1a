"""Tool calls written into an answer's text, for models or servers that do not return them as such.

Understands one or several JSON objects, lists of them, `<tool_call>` blocks, code fences and prose around
them, OpenAI's nesting under `function`, and the Python notation in which smolagents shows earlier calls.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ._compat import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction, MessageRole

__all__ = ["call_id", "parse_tool_calls_in_text", "with_parsed_tool_calls"]

_MAX_STARTS = 1_000  # brackets tried as the beginning of a call: bounds the work on hostile text
_THOUGHT = re.compile(r"\A.*</think>", re.DOTALL)
_BRACKET = re.compile(r"[{\[]")
_DECODER = json.JSONDecoder(strict=False)


@dataclass(frozen=True, slots=True)
class _Keys:
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class _Call:
    """A call as it was written; `has_arguments` is false for what only looks like one, such as a person."""

    name: str
    arguments: Any
    has_arguments: bool


def call_id(text: str, index: int) -> str:
    """An id for a call that came without one: the same for the same answer, different within it.

    smolagents runs and shows the calls of a step in the order of their ids, so the index comes first.
    """
    return f"call_{index:03}_{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def with_parsed_tool_calls(message: ChatMessage, name_key: str, arguments_key: str) -> ChatMessage:
    """The message, with the calls of its text where it has no others and with decoded arguments.

    Like smolagents' own method it completes the message it is given. Raises ValueError, which an agent shows
    to the model, when no call is found.
    """
    message.role = MessageRole.ASSISTANT
    if not message.tool_calls:
        message.tool_calls = parse_tool_calls_in_text(_text(message.content), name_key, arguments_key)
    for call in message.tool_calls:
        call.function.arguments = _decoded(call.function.arguments)
    return message


def parse_tool_calls_in_text(
    text: str, name_key: str = "name", arguments_key: str = "arguments"
) -> list[ChatMessageToolCall]:
    """The calls in the text, in order, at least one. Raises ValueError that says what is wrong or missing."""
    keys = _Keys(name_key, arguments_key)
    answer = _THOUGHT.sub("", text)
    calls, problem = _json_calls(answer, keys)
    calls = (calls if problem is None else []) or _python_calls(answer, keys)
    if not calls:
        raise ValueError(
            (problem or ("no tool call was found in the answer" if answer.strip() else "the answer is empty"))
            + f'; write a call as JSON: {{"{name_key}": "<tool>", "{arguments_key}": {{…}}}}'
        )
    if any(call.has_arguments for call in calls):
        calls = [call for call in calls if call.has_arguments]
    return [
        ChatMessageToolCall(
            ChatMessageToolCallFunction(arguments=_decoded(call.arguments), name=call.name),
            id=call_id(text, index),
            type="function",
        )
        for index, call in enumerate(calls)
    ]


def _text(content: str | list[dict[str, Any]] | None) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return content or ""


def _json_calls(text: str, keys: _Keys) -> tuple[list[_Call], str | None]:
    """The calls written as JSON, and what is wrong with one that begins like a call but is not valid."""
    calls: list[_Call] = []
    begins_call = re.compile(rf'\{{\s*"(?:{re.escape(keys.name)}|name|function|tool_calls)"\s*:')
    at = 0
    for _ in range(_MAX_STARTS):
        start = _BRACKET.search(text, at)
        if start is None:
            break
        try:
            value, at = _DECODER.raw_decode(text, start.start())
        except (ValueError, RecursionError) as error:
            if begins_call.match(text, start.start()):
                return calls, f"the tool call is not valid JSON ({error})"
            at = start.end()
        else:
            calls.extend(_calls_in(value, keys))
    return calls, None


def _python_calls(text: str, keys: _Keys) -> list[_Call]:
    start = _BRACKET.search(text)
    end = max(text.rfind("}"), text.rfind("]"))
    if start is None or end < start.start():
        return []
    try:
        value = ast.literal_eval(text[start.start() : end + 1])
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return []
    return list(_calls_in(value, keys))


def _calls_in(value: Any, keys: _Keys) -> Iterator[_Call]:
    """The calls a decoded value is, or holds as a list."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from _calls_in(item, keys)
    elif isinstance(value, dict):
        if isinstance(value.get("function"), dict):
            value = value["function"]
        name = value.get(keys.name, value.get("name"))
        if isinstance(name, str) and name:
            key = next((key for key in (keys.arguments, "arguments", "parameters") if key in value), None)
            arguments = value[key] if key is not None else None
            yield _Call(name, {} if arguments is None else arguments, key is not None)
        elif isinstance(value.get("tool_calls"), list):
            yield from _calls_in(value["tool_calls"], keys)


def _decoded(arguments: Any) -> Any:
    """Arguments as a value where they are JSON text; other text stays, as smolagents does it."""
    if not isinstance(arguments, str):
        return arguments
    try:
        return json.loads(arguments, strict=False)
    except (ValueError, RecursionError):
        return arguments
