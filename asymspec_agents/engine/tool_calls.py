"""Tool calls out of a model's text.

Understood: `<tool_call>{…}</tool_call>` blocks (the Hermes form, which Qwen's templates ask for), and an
answer that is nothing but a JSON call or a list of calls, as small models write when they forget the tags.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..messages import FunctionCall, ToolCall

__all__ = ["ParsedAnswer", "ToolCallStream", "parse_tool_calls"]

OPEN, CLOSE = "<tool_call>", "</tool_call>"
BARE_STARTS = ("{", "[", "```")
_FENCE = re.compile(r"\A```(?:json)?\s*(.*?)\s*```\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """The text outside of calls, and the calls in order, each with an id of its own."""

    content: str
    tool_calls: tuple[ToolCall, ...]


def parse_tool_calls(text: str, tool_names: Iterable[str]) -> ParsedAnswer:
    """Content and calls of a whole answer; a block that is no valid call stays content."""
    names = frozenset(tool_names)
    if OPEN not in text:
        return _parse_bare(text, names)
    content: list[str] = []
    calls: list[ToolCall] = []
    head, *blocks = text.split(OPEN)
    content.append(head)
    for block in blocks:
        body, _, rest = block.partition(CLOSE)
        parsed = _calls(body)
        if parsed:
            calls.extend(parsed)
            content.append(rest)
        else:
            content.append(OPEN + block)
    return ParsedAnswer("".join(content).strip() if calls else text, tuple(calls))


def _parse_bare(text: str, names: frozenset[str]) -> ParsedAnswer:
    """An answer without tags is a call only where all of it is one, of a tool that exists."""
    body = text.strip()
    fenced = _FENCE.match(body)
    calls = _calls(fenced.group(1) if fenced else body)
    if calls and all(call.function is not None and call.function.name in names for call in calls):
        return ParsedAnswer("", calls)
    return ParsedAnswer(text, ())


def _calls(body: str) -> tuple[ToolCall, ...]:
    """The calls a JSON text holds; empty where it is no call."""
    try:
        value = json.loads(body, strict=False)
    except (ValueError, RecursionError):
        return ()
    items: Sequence[Any] = value if isinstance(value, list) else [value]
    calls = [_call(item) for item in items]
    return tuple(call for call in calls if call is not None) if all(calls) else ()


def _call(item: Any) -> ToolCall | None:
    if not isinstance(item, dict) or not isinstance(item.get("name"), str):
        return None
    arguments = item.get("arguments", item.get("parameters"))
    if isinstance(arguments, dict):
        arguments = json.dumps(arguments, ensure_ascii=False)
    if not isinstance(arguments, str):
        return None
    function = FunctionCall(name=item["name"], arguments=arguments)
    return ToolCall(id=f"call_{uuid.uuid4().hex[:24]}", type="function", function=function)


class ToolCallStream:
    """Streams the content of an answer and keeps back what is, or may become, a tool call."""

    def __init__(self, tool_names: Iterable[str]) -> None:
        self._names = frozenset(tool_names)
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
        parsed = parse_tool_calls(self._text, self._names)
        sent = self._text[: self._sent]
        if parsed.content.startswith(sent):
            return ParsedAnswer(parsed.content[len(sent) :], parsed.tool_calls)
        return ParsedAnswer(parsed.content[len(sent.strip()) :], parsed.tool_calls)

    def _send(self, end: int) -> str:
        piece = self._text[self._sent : end]
        self._sent = max(self._sent, end)
        return piece
