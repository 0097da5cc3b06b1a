"""A scripted model that does what it is asked: it calls tools, fills schemas, or talks."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from asymspec_agents import ChatRequest, ChatResponse, ScriptedBackend
from asymspec_agents.backends import Segment, Usage
from asymspec_agents.messages import FunctionCall, ToolCall

__all__ = ["obedient", "obedient_backend"]

TALK = "Hello there.\nHow may I help?\nAsk me anything.\n"


def obedient_backend(model: str = "org/verifier") -> ScriptedBackend:
    """A backend that answers so."""
    return ScriptedBackend(obedient, model=model, drafter="org/drafter")


def obedient(request: Any) -> ChatResponse:
    """A call where tools may be used and the user spoke last, JSON where it is asked for, else some talk."""
    assert isinstance(request, ChatRequest)
    text = " ".join(request.messages[-1].texts())
    functions = [tool.function for tool in request.tools if tool.function is not None]
    choice = request.tool_choice
    if functions and choice != "none" and (request.messages[-1].role == "user" or choice == "required"):
        wanted = choice["function"]["name"] if isinstance(choice, Mapping) else None
        named = [it for it in functions if it.name == wanted] or [it for it in functions if it.name in text]
        function = (named or functions)[0]
        arguments = json.dumps(_filled(function.parameters or {}, text), ensure_ascii=False)
        call = ToolCall(
            id=f"call_{len(request.messages)}",
            type="function",
            function=FunctionCall(name=function.name, arguments=arguments),
        )
        return _answer(request, "", (call,))
    if request.response_format is not None:
        schema = request.response_format.get("json_schema", {}).get("schema")
        if schema is None:  # JSON of no schema: the keys that the text names
            schema = {"type": "object", "properties": {key: {} for key in re.findall(r"'(\w+)'", text)}}
        return _answer(request, json.dumps(_filled(schema, text), ensure_ascii=False, indent=1))
    content = TALK
    for stop in request.stop:
        content = content.split(stop)[0]
    return _answer(request, content)


def _answer(request: ChatRequest, content: str, calls: tuple[ToolCall, ...] = ()) -> ChatResponse:
    usage = Usage(sum(len(message.texts()) for message in request.messages) + 5, 7, 2)
    return ChatResponse(
        content, calls, "tool_calls" if calls else "stop", usage, None, (Segment(content, "plain"),)
    )


def _filled(schema: Mapping[str, Any], text: str) -> Any:
    """A value of the schema, taken from the text where it has one."""
    if "enum" in schema:
        return schema["enum"][0]
    for choices in (schema.get("anyOf"), schema.get("oneOf")):
        if choices:
            return _filled(choices[0], text)
    kind = schema.get("type", "string")
    if kind == "object":
        return {name: _filled(inner, text) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        return [_filled(schema.get("items", {}), text)]
    if kind in ("integer", "number"):
        found = re.search(r"\d+", text)
        return int(found[0]) if found else 3
    if kind == "boolean":
        return True
    quoted = re.search(r"'([^']+)'", text)
    return quoted[1] if quoted else "some text"
