"""Calls in tags: Qwen3-Coder's and Qwen3.5's functions, Llama's `<function=…>`, and GLM's pairs."""

from __future__ import annotations

import re
from typing import Any

from ...messages import FunctionCall
from .base import Block, ToolFormat, Tools, block_until, function_call, read_json, skip_space
from .values import allowed_types, convert

__all__ = ["FUNCTION", "GLM"]

_TAG, _TAG_END = "<tool_call>", "</tool_call>"
_FUNCTION, _FUNCTION_END, _FUNCTION_NAME = "<function=", "</function>", re.compile(r"<function=([^<>\s]+)>")
_PARAMETER, _PARAMETER_END = "<parameter=", "</parameter>"
_PARAMETER_NAME = re.compile(r"<parameter=([^<>\n]+)>")


def _read_functions(text: str, start: int, tools: Tools) -> Block | None:
    """One or more functions, with or without tags around them: models forget the first tag, or both."""
    is_tagged = text.startswith(_TAG, start)
    at = end = skip_space(text, start + len(_TAG)) if is_tagged else start
    functions: list[FunctionCall] = []
    while (one := _read_function(text, at, tools)) is not None:
        functions.extend(one.functions)
        end = one.end
        at = skip_space(text, end)
    if is_tagged:
        return block_until(text, end, functions, _TAG_END, (_TAG, _FUNCTION))
    if text.startswith(_TAG_END, at):
        end = at + len(_TAG_END)
    return Block(tuple(functions), end) if functions else None


def _read_function(text: str, start: int, tools: Tools) -> Block | None:
    named = _FUNCTION_NAME.match(text, start)
    if named is None:
        return None
    name, at = named.group(1), skip_space(text, named.end())
    if text.startswith("{", at):
        found = read_json(text, at)
        call = function_call(name, found.value) if found else None
        return block_until(text, found.end, [call], _FUNCTION_END, (_FUNCTION,)) if found and call else None
    arguments: dict[str, Any] = {}
    while (parameter := _PARAMETER_NAME.match(text, at)) is not None:
        end = _end_of_value(text, parameter.end(), _PARAMETER_END, (_PARAMETER, _FUNCTION_END))
        if end is None:
            return None
        value = text[parameter.end() : end].removeprefix("\n").removesuffix("\n")
        key = parameter.group(1).strip()
        arguments[key] = convert(value, allowed_types(tools, name, key))
        at = skip_space(text, end + len(_PARAMETER_END))
    call = function_call(name, arguments)
    if call is None or not text.startswith(_FUNCTION_END, at):
        return None
    return Block((call,), at + len(_FUNCTION_END))


def _end_of_value(text: str, start: int, closing: str, following: tuple[str, ...]) -> int | None:
    """Where the value ends: its closing is followed by what may follow, as a value may hold a closing too."""
    end = text.find(closing, start)
    while end >= 0 and not text.startswith(following, skip_space(text, end + len(closing))):
        end = text.find(closing, end + 1)
    return end if end >= 0 else None


FUNCTION = ToolFormat(
    "function",
    (_FUNCTION, "<|python_tag|>", "<|start_header_id|>"),
    (_TAG, _FUNCTION),
    _read_functions,
    marks=(_TAG_END, _FUNCTION_END, _PARAMETER_END),
)


_KEY, _KEY_END, _VALUE, _VALUE_END = "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"
_GLM_NAME = re.compile(r"<tool_call>\s*([^\s<>{}\[\]\"']+)\s*")
_GLM_KEY = re.compile(r"<arg_key>([^<>]*)</arg_key>\s*<arg_value>")


def _read_glm(text: str, start: int, tools: Tools) -> Block | None:
    named = _GLM_NAME.match(text, start)
    if named is None:
        return None
    name, at = named.group(1), named.end()
    arguments: dict[str, Any] = {}
    while (key := _GLM_KEY.match(text, at)) is not None:
        end = _end_of_value(text, key.end(), _VALUE_END, (_KEY, _TAG_END))
        if end is None:
            return None
        parameter = key.group(1).strip()
        arguments[parameter] = convert(text[key.end() : end], allowed_types(tools, name, parameter))
        at = skip_space(text, end + len(_VALUE_END))
    call = function_call(name, arguments)
    # A word between tags is a call without arguments only where a tool has that name.
    if call is None or not (arguments or name in tools) or not text.startswith(_TAG_END, at):
        return None
    return Block((call,), at + len(_TAG_END))


GLM = ToolFormat("glm", (_KEY,), (_TAG,), _read_glm, marks=(_TAG_END, _KEY, _KEY_END, _VALUE, _VALUE_END))
