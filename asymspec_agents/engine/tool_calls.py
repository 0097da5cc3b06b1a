"""Tool calls out of a model's text.

Understood: `<tool_call>{…}</tool_call>` blocks (the Hermes form, which Qwen's templates ask for), and an
answer that is nothing but a JSON call or a list of calls, as small models write when they forget the tags.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..messages import FunctionCall, ToolCall

__all__ = ["ParsedAnswer", "ToolCallStream", "parse_tool_calls"]

OPEN, CLOSE = "<tool_call>", "</tool_call>"
BARE_STARTS = ("{", "[", "```")
_JSON = json.JSONDecoder(strict=False)  # models write line breaks into strings
_FENCE = re.compile(r"\A```(?:json)?\s*(.*?)\s*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The text outside of calls, and the calls in order, each with an id of its own."""

    content: str
    tool_calls: tuple[ToolCall, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    """The calls of one block, and where the text goes on behind it."""

    functions: list[FunctionCall]
    end: int


def parse_tool_calls(text: str, tool_names: Iterable[str], id_prefix: str) -> ParsedAnswer:
    """Content and calls of a whole answer; a block that is no valid call stays content.

    Ids are `id_prefix` and the call's number, so that they sort in the order of the calls.
    """
    content, functions = _parse_bare(text, frozenset(tool_names))
    if not functions:
        content, functions = _parse_tagged(text)
    calls = (
        ToolCall(id=f"{id_prefix}{number:03}", type="function", function=function)
        for number, function in enumerate(functions)
    )
    return ParsedAnswer(content, tuple(calls))


def _parse_tagged(text: str) -> tuple[str, list[FunctionCall]]:
    functions: list[FunctionCall] = []
    kept: list[str] = []
    done, tag = 0, text.find(OPEN)
    while tag >= 0:
        block = _read_block(text, tag + len(OPEN))
        if block is not None:
            functions.extend(block.functions)
            kept.append(text[done:tag])
            done = block.end
        tag = text.find(OPEN, max(done, tag + 1))
    if not functions:
        return text, []
    # A stream has sent the text before the first tag by now: its beginning must stay as it is.
    content = "".join((*kept, text[done:])).rstrip()
    return (content if kept[0].strip() else content.lstrip()), functions


def _read_block(text: str, start: int) -> _Block | None:
    """The block whose JSON begins at `start`; its end tag may be missing before another block or the end."""
    try:
        value, end = _JSON.raw_decode(text, _skip_space(text, start))
    except (ValueError, RecursionError):
        return None
    functions, end = _functions(value), _skip_space(text, end)
    if not functions:
        return None
    if text.startswith(CLOSE, end):
        return _Block(functions, end + len(CLOSE))
    return _Block(functions, end) if end == len(text) or text.startswith(OPEN, end) else None


def _skip_space(text: str, start: int) -> int:
    return len(text) - len(text[start:].lstrip())


def _parse_bare(text: str, names: frozenset[str]) -> tuple[str, list[FunctionCall]]:
    """An answer without tags is a call only where all of it is one, of a tool that exists."""
    body = text.strip()
    fenced = _FENCE.match(body)
    try:
        functions = _functions(_JSON.decode(fenced.group(1) if fenced else body))
    except (ValueError, RecursionError):
        return text, []
    if functions and all(function.name in names for function in functions):
        return "", functions
    return text, []


def _functions(value: Any) -> list[FunctionCall]:
    """The calls that a JSON value is; empty where it, or one item of a list, is none."""
    items: Sequence[Any] = value if isinstance(value, list) else [value]
    functions = [_function(item) for item in items]
    return [f for f in functions if f is not None] if all(functions) else []


def _function(item: Any) -> FunctionCall | None:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str) or not item["name"]:
        return None
    arguments = item.get("arguments", item.get("parameters"))
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, str):
        return None
    return FunctionCall(name=item["name"], arguments=arguments)


class ToolCallStream:
    """Streams the content of an answer and keeps back what is, or may become, a tool call.

    Invariant: what is sent is a beginning of the content `parse_tool_calls` gives for the whole answer.
    """

    def __init__(self, tool_names: Iterable[str], id_prefix: str) -> None:
        self._names = frozenset(tool_names)
        self._id_prefix = id_prefix
        self._text = ""
        self._sent = 0

    def push(self, piece: str) -> str:
        """The content that is certainly no call."""
        self._text += piece
        if not self._names:
            return self._send(len(self._text))
        begin = self._text.lstrip()
        if not begin or any(begin.startswith(s) or s.startswith(begin) for s in BARE_STARTS):
            return ""
        tag = self._text.find(OPEN)
        if tag >= 0:
            return self._send(len(self._text[:tag].rstrip()))
        # White space before a tag belongs to the call, and the text's end may be the tag's beginning.
        end = len(self._text)
        for length in range(min(len(OPEN) - 1, end), 0, -1):
            if OPEN.startswith(self._text[-length:]):
                end -= length
                break
        return self._send(len(self._text[:end].rstrip()))

    def finish(self) -> ParsedAnswer:
        """The content not sent yet, and the calls."""
        if not self._names:
            return ParsedAnswer("", ())
        parsed = parse_tool_calls(self._text, self._names, self._id_prefix)
        return ParsedAnswer(parsed.content[self._sent :], parsed.tool_calls)

    def _send(self, end: int) -> str:
        piece = self._text[self._sent : end]
        self._sent = max(self._sent, end)
        return piece
