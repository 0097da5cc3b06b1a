"""Calls as JSON: Hermes and Qwen, Mistral, Llama's python tag, Phi and Granite, and JSON without any mark."""

from __future__ import annotations

import re

from ...messages import FunctionCall
from .base import Block, ToolFormat, Tools, block_until, calls_of, function_call, read_json, skip_space
from .pythonic import read_code

__all__ = ["HERMES", "MISTRAL", "PIPED", "PYTHON_TAG", "may_be_bare", "read_bare"]

_BEGINNINGS = ("{", "[")
_FENCE, _LANGUAGE = "```", "json"


def read_bare(text: str, tools: Tools) -> tuple[FunctionCall, ...]:
    """The calls of an answer that is nothing but JSON calls of tools that exist."""
    body = text.strip()
    if body.startswith(_FENCE) and body.endswith(_FENCE):
        body = body[len(_FENCE) : -len(_FENCE)].removeprefix(_LANGUAGE)
    calls, end = _read_values(body, 0)
    return calls if end == len(body) and all(call.name in tools for call in calls) else ()


def may_be_bare(beginning: str) -> bool:
    """Whether `read_bare` may find calls in an answer that begins so."""
    begin = beginning.lstrip()
    if begin.startswith(_FENCE):
        begin = begin[len(_FENCE) :].removeprefix(_LANGUAGE).lstrip()
        return begin.startswith(_BEGINNINGS) or _LANGUAGE.startswith(begin)
    return begin.startswith(_BEGINNINGS) or _FENCE.startswith(begin)


def _read_values(text: str, start: int) -> tuple[tuple[FunctionCall, ...], int]:
    """Calls from `start` on as JSON values side by side, perhaps with semicolons between, and their end."""
    calls: tuple[FunctionCall, ...] = ()
    end = start
    while (found := read_json(text, end)) is not None:
        more = calls_of(found.value)
        if not more:
            break
        calls, end = calls + more, skip_space(text, found.end)
        if text.startswith(";", end):
            end = skip_space(text, end + 1)
    return calls, end


def _read_marked(text: str, start: int, opening: str, closing: str) -> Block | None:
    """The calls of the JSON behind the opening at `start`."""
    found = read_json(text, start + len(opening))
    if found is None:
        return None
    return block_until(text, found.end, calls_of(found.value), closing, (opening,))


_TAG, _TAG_END = "<tool_call>", "</tool_call>"


def _read_tagged(text: str, start: int, tools: Tools) -> Block | None:
    return _read_marked(text, start, _TAG, _TAG_END)


HERMES = ToolFormat("hermes", (_TAG,), (_TAG,), _read_tagged, marks=(_TAG_END,))


_TOOL_CALLS, _ARGS, _CALL_ID = "[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"
_MISTRAL_NAME = re.compile(r"\s*([^\s\[\]{}\"']+)\s*(?:\[CALL_ID\]\s*[^\s\[\]{}]+\s*)?(?:\[ARGS\]\s*)?(?=\{)")


def _read_mistral(text: str, start: int, tools: Tools) -> Block | None:
    start += len(_TOOL_CALLS)
    named = _MISTRAL_NAME.match(text, start)
    found = read_json(text, named.end() if named else start)
    if found is None:
        return None
    if named is None:
        calls = calls_of(found.value)
    else:
        call = function_call(named.group(1), found.value)
        calls = () if call is None else (call,)
    return block_until(text, found.end, calls, "", (_TOOL_CALLS,))


MISTRAL = ToolFormat("mistral", (_TOOL_CALLS,), (_TOOL_CALLS,), _read_mistral, marks=(_ARGS, _CALL_ID))


_PYTHON_TAG = "<|python_tag|>"


def _read_python_tag(text: str, start: int, tools: Tools) -> Block | None:
    """JSON calls, or a built-in tool's call as code; other code behind the tag is no call."""
    start += len(_PYTHON_TAG)
    calls, end = _read_values(text, start)
    if calls:
        return block_until(text, end, calls, "", (_PYTHON_TAG,))
    following = text.find(_PYTHON_TAG, start)
    end = len(text) if following < 0 else following
    calls = read_code(text[start:end], tools)
    return Block(calls, end) if calls else None


PYTHON_TAG = ToolFormat("python_tag", (_PYTHON_TAG, "<|start_header_id|>"), (_PYTHON_TAG,), _read_python_tag)


_PIPED, _PIPED_END = "<|tool_call|>", "<|/tool_call|>"


def _read_piped(text: str, start: int, tools: Tools) -> Block | None:
    return _read_marked(text, start, _PIPED, _PIPED_END)


# Phi-4-mini's template shows only how tools are given, not how they are called.
PIPED = ToolFormat("piped", (_PIPED, "<|tool|>"), (_PIPED,), _read_piped, marks=(_PIPED_END,))
