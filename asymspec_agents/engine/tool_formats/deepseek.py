"""DeepSeek's calls: V3 and R1 (a kind, a name and fenced JSON), V3.1 and later (a name and JSON)."""

from __future__ import annotations

import re

from ...messages import FunctionCall
from .base import Block, ToolFormat, Tools, block_until, function_call, read_json, skip_space

__all__ = ["DEEPSEEK"]

_CALLS, _CALLS_END = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_CALL, _CALL_END, _SEPARATOR = "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>"
_NAME = re.compile(
    rf"{re.escape(_CALL)}\s*([^\s<>`{{]+)\s*{re.escape(_SEPARATOR)}(?:\s*([^\s<>`{{]+)\s*```(?:json)?)?"
)


def _read_calls(text: str, start: int, tools: Tools) -> Block | None:
    """A section of calls, or one call outside of any."""
    is_section = text.startswith(_CALLS, start)
    end = start + len(_CALLS) if is_section else start
    functions: list[FunctionCall] = []
    while (one := _read_call(text, skip_space(text, end))) is not None:
        functions.extend(one.functions)
        end = one.end
    if is_section:
        return block_until(text, end, functions, _CALLS_END, (_CALLS,))
    return Block(tuple(functions), end) if functions else None


def _read_call(text: str, start: int) -> Block | None:
    named = _NAME.match(text, start)
    found = named and read_json(text, named.end())
    if not named or not found:
        return None
    call = function_call(named.group(2) or named.group(1), found.value)
    end = skip_space(text, found.end)
    if named.group(2):
        if not text.startswith("```", end):
            return None
        end = skip_space(text, end + 3)
    return block_until(text, end, [call] if call else [], _CALL_END, (_CALL, _CALLS_END))


DEEPSEEK = ToolFormat(
    "deepseek", (_CALLS,), (_CALLS, _CALL), _read_calls, marks=(_CALLS_END, _CALL_END, _SEPARATOR)
)
