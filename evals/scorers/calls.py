"""The tool calls of an answer: those it made as such, or else those its text consists of.

A model that answers a question with tools is expected to make tool calls. One that writes its calls as plain
text is scored on them only where reading is exact: JSON calls that are the whole answer, calls in
`<tool_call>` tags, or Python calls that are the whole answer (BFCL's own prompt mode asks for these). Nothing
is repaired or converted, and the result says where the calls stood.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asymspec_agents.engine.tool_calls import parse_tool_calls
from asymspec_agents.engine.tool_formats.base import Tools
from asymspec_agents.engine.tool_formats.json_formats import HERMES
from asymspec_agents.engine.tool_formats.pythonic import read_code
from asymspec_agents.messages import ToolSpec

from ..records import Output

__all__ = ["ReadCalls", "WrittenCall", "read_calls"]

_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"\A```(?:python|py|tool_code)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call by name; `arguments` is None where what stood in their place is no JSON object."""

    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ReadCalls:
    """The calls in order, and where they stood: `tool_calls`, `json` or `python` text, or `nowhere`."""

    calls: tuple[WrittenCall, ...]
    read_from: str


def read_calls(output: Output, tools: Sequence[ToolSpec]) -> ReadCalls:
    """The calls an output makes; its text is looked at only where it has no tool calls.

    Python's tuples are read as lists. A call without arguments has an empty object.
    """
    if output.tool_calls:
        return ReadCalls(tuple(map(_wire_call, output.tool_calls)), "tool_calls")
    known = Tools.of(tools)
    text = _THOUGHT.sub("", output.answer).strip()
    found = parse_tool_calls(text, (HERMES,), known, "").tool_calls
    if found:
        return ReadCalls(tuple(_wire_call(call.wire()) for call in found), "json")
    fenced = _FENCE.match(text)
    code = read_code(fenced[1] if fenced else text, known) if text else ()
    if code:
        return ReadCalls(tuple(_call(call.name, call.arguments) for call in code), "python")
    return ReadCalls((), "nowhere")


def _wire_call(call: Mapping[str, Any]) -> WrittenCall:
    function = call.get("function")
    if not isinstance(function, Mapping):
        return WrittenCall("", None)
    return _call(function.get("name"), function.get("arguments"))


def _call(name: Any, arguments: Any) -> WrittenCall:
    """The call; servers send an empty text, or nothing, for no arguments."""
    if arguments is None or (isinstance(arguments, str) and not arguments.strip()):
        arguments = {}
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            arguments = None
    return WrittenCall(
        name if isinstance(name, str) else "", arguments if isinstance(arguments, dict) else None
    )
