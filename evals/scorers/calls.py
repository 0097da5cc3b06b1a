"""The tool calls of an answer: those it made as such, or else those its text consists of.

A model that answers a question with tools is expected to make tool calls. One that writes its calls as plain
text is scored on them only where reading is exact: JSON calls that are the whole answer, calls in
`<tool_call>` tags, or Python calls that are the whole answer (BFCL's own prompt mode asks for these). Nothing
is repaired or converted, and the result says where the calls stood.

Models also describe a call in prose and show it as JSON or code within. That is no call, here as on the
official leaderboards; `read_calls_anywhere` reads it all the same, to tell how many answers are wrong by
their form only.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asymspec_agents.engine.tool_calls import parse_tool_calls
from asymspec_agents.engine.tool_formats.base import Tools, calls_of, read_json
from asymspec_agents.engine.tool_formats.json_formats import HERMES
from asymspec_agents.engine.tool_formats.pythonic import read_code
from asymspec_agents.messages import FunctionCall, ToolSpec

from ..records import Output

__all__ = ["ReadCalls", "WrittenCall", "read_calls", "read_calls_anywhere"]

_THOUGHT = re.compile(r"\A.*</think(?:ing)?>", re.DOTALL)
MAX_STARTS = 200  # braces of a text at which a call is looked for
_FENCES = re.compile(r"```(?:python|py|tool_code)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)
_FENCE = re.compile(r"\A```(?:python|py|tool_code)?[ \t]*\n(.*)\n[ \t]*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A call by name; `arguments` is None where what stood in their place is no JSON object."""

    name: str
    arguments: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class ReadCalls:
    """The calls in order, and where they stood: `tool_calls`, `json` or `python` text, `prose`, `nowhere`."""

    calls: tuple[WrittenCall, ...]
    read_from: str


def read_calls(output: Output, tools: Sequence[ToolSpec]) -> ReadCalls:
    """The calls an output makes; its text is looked at only where it has no tool calls.

    Python's tuples are read as lists. A call without arguments has an empty object.
    """
    if output.tool_calls:
        return ReadCalls(tuple(map(_wire_call, output.tool_calls)), "tool_calls")
    known = Tools.of(tools)
    text = _said(output)
    found = parse_tool_calls(text, (HERMES,), known, "").tool_calls
    if found:
        return ReadCalls(tuple(_wire_call(call.wire()) for call in found), "json")
    fenced = _FENCE.match(text)
    code = read_code(fenced[1] if fenced else text, known) if text else ()
    return ReadCalls(_calls(code), "python") if code else ReadCalls((), "nowhere")


def read_calls_anywhere(output: Output, tools: Sequence[ToolSpec]) -> ReadCalls:
    """The calls an output makes, else those shown within its text: JSON anywhere, or fenced Python.

    Only calls of tools that there are count, as prose holds other JSON and code.
    """
    read = read_calls(output, tools)
    if read.calls:
        return read
    known, text = Tools.of(tools), _said(output)
    found = _shown_as_json(text, known)
    if not found:
        found = [call for block in _FENCES.findall(text) for call in read_code(block, known)]
    return ReadCalls(_calls(found), "prose") if found else read


def _shown_as_json(text: str, known: Tools) -> list[FunctionCall]:
    calls: list[FunctionCall] = []
    at = text.find("{")
    for _ in range(MAX_STARTS):
        if at < 0:
            break
        value = read_json(text, at)
        here = calls_of(value.value) if value is not None else ()
        is_call = bool(here) and all(call.name in known for call in here)
        if is_call:
            calls.extend(here)
        at = text.find("{", value.end if value is not None and is_call else at + 1)
    return calls


def _said(output: Output) -> str:
    """The answer without the thoughts some servers leave in it."""
    return _THOUGHT.sub("", output.answer).strip()


def _calls(functions: Sequence[FunctionCall]) -> tuple[WrittenCall, ...]:
    return tuple(_call(function.name, function.arguments) for function in functions)


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
