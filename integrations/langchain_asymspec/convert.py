"""LangChain messages and tools on the wire, and edits of the wire back onto LangChain messages.

Invariants:
- Wire messages stand in the order of their LangChain messages. Each is one of them, but for results of tools
  inside a user message (Anthropic's form), which become messages of their own before it.
- A tool call's arguments are the model's own characters where the message still has them.
- Nothing of the caller is changed or copied deeply; an edited message is a copy that differs in its content
  only: ids, tool calls, artifact, status and additional_kwargs are the same objects.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.utils.function_calling import convert_to_openai_tool

from asymspec_agents.errors import MessageError
from asymspec_agents.messages import ContentPart, Message, ToolSpec, parse_messages, parse_tools
from asymspec_agents.protocol import Edit

from .blocks import (
    Path,
    PlacedPart,
    as_json,
    placed_part,
    placed_parts,
    plain_content,
    replaced_at,
    unwrapped,
)

__all__ = ["WireMessages", "wire_messages", "wire_tools"]


@dataclass(frozen=True, slots=True)
class _Place:
    """Which LangChain message a wire message came from, and where in it each of its parts."""

    source: int
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class WireMessages:
    """A conversation's wire messages, and where each of their parts came from."""

    given: tuple[BaseMessage, ...]
    messages: tuple[Message, ...]
    _places: tuple[_Place, ...]

    def without_data(self) -> tuple[Message, ...]:
        """The wire messages with other parts than text by their type alone."""
        return tuple(map(_without_data, self.messages))

    def edited(self, edits: Sequence[Edit]) -> list[BaseMessage]:
        """The LangChain messages with edits of `messages` applied; untouched ones are the same objects."""
        edited = list(self.given)
        for edit in edits:
            place = self._places[edit.message]
            message = edited[place.source]
            content = replaced_at(message.content, place.paths[edit.part or 0], edit.text)
            edited[place.source] = message.model_copy(update={"content": content})
        return edited


def wire_messages(messages: Sequence[BaseMessage]) -> WireMessages:
    """The messages on the wire; raises MessageError naming the message that cannot be sent."""
    wire: list[Mapping[str, Any]] = []
    places: list[_Place] = []
    for index, message in enumerate(messages):
        for fields, placed in _written(message, f"messages[{index}]"):
            content = plain_content(placed)
            if content == "" and (fields.get("tool_calls") or fields.get("function_call")):
                content_field: Any = None  # as OpenAI's own answers have it
            else:
                content_field = content
            wire.append({"role": fields["role"], "content": content_field, **fields})
            places.append(_Place(index, tuple(item.path for item in placed) or ((),)))
    return WireMessages(tuple(messages), parse_messages(wire), tuple(places))


def wire_tools(tools: Sequence[Any], *, strict: bool | None = None) -> tuple[ToolSpec, ...]:
    """The tools (functions, pydantic models, schemas too) in OpenAI's format; raises ValueError."""
    return parse_tools([convert_to_openai_tool(tool, strict=strict) for tool in tools])


def _without_data(message: Message) -> Message:
    parts = message.content
    if not isinstance(parts, tuple) or all(part.type == "text" for part in parts):
        return message
    bare = tuple(part if part.type == "text" else ContentPart(type=part.type) for part in parts)
    return message.model_copy(update={"content": bare})


def _written(message: BaseMessage, place: str) -> Iterator[tuple[dict[str, Any], list[PlacedPart]]]:
    """A message's fields on the wire, content aside, with the parts of its content."""
    fields: dict[str, Any] = {"role": _role(message, place)}
    if message.name is not None:
        fields["name"] = message.name
    content: Any = message.content
    if isinstance(message, AIMessage):
        fields.update(_assistant_fields(message, place))
    elif isinstance(message, ToolMessage):
        fields["tool_call_id"] = message.tool_call_id
    elif isinstance(content, list) and any(map(_is_result, content)):
        yield from _results(content, f"{place}.content")
        others = (
            placed_part(block, f"{place}.content[{number}]", (number,))
            for number, block in enumerate(content)
            if not _is_result(block)
        )
        rest = [part for part in others if part is not None]
        if rest:
            yield fields, rest
        return
    yield fields, placed_parts(content, f"{place}.content")


def _role(message: BaseMessage, place: str) -> str:
    if isinstance(message, SystemMessage):
        role = message.additional_kwargs.get("__openai_role__", "system")
        return role if isinstance(role, str) else "system"
    if isinstance(message, ChatMessage):
        return message.role
    for kind, role in (
        (AIMessage, "assistant"),
        (HumanMessage, "user"),
        (ToolMessage, "tool"),
        (FunctionMessage, "function"),
    ):
        if isinstance(message, kind):
            return role
    raise MessageError(f"{place}: a {type(message).__name__} cannot be sent to a model")


def _is_result(block: object) -> bool:
    block = unwrapped(block)
    return isinstance(block, Mapping) and block.get("type") == "tool_result"


def _results(content: Sequence[Any], place: str) -> Iterator[tuple[dict[str, Any], list[PlacedPart]]]:
    for number, given in enumerate(content):
        if not _is_result(given):
            continue
        is_wrapped = given.get("type") == "non_standard"
        block = given["value"] if is_wrapped else given
        identity = block.get("tool_use_id")
        if not isinstance(identity, str):
            raise MessageError(f"{place}[{number}].tool_use_id is missing")
        at: Path = (number, "value", "content") if is_wrapped else (number, "content")
        inner = block.get("content")
        parts = placed_parts(inner, f"{place}[{number}].content", at) if inner else []
        yield {"role": "tool", "tool_call_id": identity}, parts


def _assistant_fields(message: AIMessage, place: str) -> dict[str, Any]:
    extra = message.additional_kwargs
    fields: dict[str, Any] = {}
    calls = _tool_calls(message, place)
    if calls:
        fields["tool_calls"] = calls
    elif isinstance(extra.get("function_call"), Mapping):
        fields["function_call"] = extra["function_call"]
    if extra.get("refusal"):
        fields["refusal"] = extra["refusal"]
    reasoning = _reasoning(message)
    if reasoning:
        fields["reasoning"] = reasoning
    return fields


def _tool_calls(message: AIMessage, place: str) -> list[dict[str, Any]]:
    raw = _raw_arguments(message)
    calls = []
    for number, call in enumerate(message.tool_calls):
        arguments = raw.get(call["id"])
        if arguments is None or not _says(arguments, call["args"]):
            arguments = as_json(call["args"], f"{place}.tool_calls[{number}].args")
        calls.append(_call(call["id"], call["name"], arguments))
    for invalid in message.invalid_tool_calls:
        arguments = raw.get(invalid["id"], invalid["args"] or "")
        calls.append(_call(invalid["id"], invalid["name"] or "", arguments))
    known = {call["id"] for call in calls}
    blocks = message.content if isinstance(message.content, list) else ()
    for block in map(unwrapped, blocks):
        if isinstance(block, Mapping) and block.get("type") == "tool_use" and block.get("id") not in known:
            arguments = as_json(block.get("input", {}), f"{place}.content")
            calls.append(_call(block.get("id"), str(block.get("name", "")), arguments))
    return calls


def _call(identity: str | None, name: str, arguments: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def _raw_arguments(message: AIMessage) -> dict[str | None, str]:
    """The arguments as the model wrote them, by call id, where the message's provider kept them."""
    kept = message.additional_kwargs.get("tool_calls")
    raw: dict[str | None, str] = {}
    for call in kept if isinstance(kept, list) else ():
        function = call.get("function") if isinstance(call, Mapping) else None
        if isinstance(function, Mapping) and isinstance(function.get("arguments"), str):
            raw[call.get("id")] = function["arguments"]
    return raw


def _says(arguments: str, args: object) -> bool:
    """Whether these characters still are the call: an approver or a middleware may have changed it."""
    try:
        return bool(json.loads(arguments) == args)
    except (ValueError, RecursionError):
        return False


def _reasoning(message: AIMessage) -> str:
    kept = message.additional_kwargs.get("reasoning_content") or message.additional_kwargs.get("reasoning")
    if isinstance(kept, str):
        return kept
    blocks = message.content if isinstance(message.content, list) else ()
    texts = (
        block.get("reasoning") or block.get("thinking")
        for block in map(unwrapped, blocks)
        if isinstance(block, Mapping) and block.get("type") in ("reasoning", "thinking")
    )
    return "\n".join(text for text in texts if isinstance(text, str))
