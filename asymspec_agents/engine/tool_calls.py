"""Tool calls out of a model's text, in the formats the model uses.

Whatever the format, an answer that is nothing but JSON calls of tools that exist is read too, as small models
write when they forget their format.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..messages import FunctionCall, ToolCall
from .reasoning import held_length
from .tool_formats.base import Block, ToolFormat, Tools
from .tool_formats.json_formats import may_be_bare, read_bare

__all__ = ["ParsedText", "ToolCallStream", "parse_tool_calls"]


@dataclass(frozen=True, slots=True)
class ParsedText:
    """The text outside of calls, and the calls in order, each with an id of its own."""

    content: str
    tool_calls: tuple[ToolCall, ...]


def parse_tool_calls(text: str, formats: Sequence[ToolFormat], tools: Tools, id_prefix: str) -> ParsedText:
    """Content and calls of a whole answer; a block that is no valid call stays content.

    Ids are `id_prefix` and the call's number, so that they sort in the order of the calls.
    """
    content, functions = "", read_bare(text, tools)
    for fmt in formats:
        if not functions and fmt.read_whole is not None:
            functions = fmt.read_whole(text, tools)
    if not functions:
        content, functions = _parse_blocks(text, formats, tools)
    calls = (
        ToolCall(id=f"{id_prefix}{number:03}", type="function", function=function)
        for number, function in enumerate(functions)
    )
    return ParsedText(content, tuple(calls))


def _parse_blocks(
    text: str, formats: Sequence[ToolFormat], tools: Tools
) -> tuple[str, tuple[FunctionCall, ...]]:
    functions: list[FunctionCall] = []
    kept: list[str] = []
    done, found = 0, _pattern(formats).search(text)
    while found:
        block = _read(text, found.start(), formats, tools)
        if block is not None:
            functions.extend(block.functions)
            kept.append(text[done : found.start()])
            done = block.end
        found = _pattern(formats).search(text, max(done, found.start() + 1))
    if not functions:
        return text, ()
    # A stream has sent the text before the first opening by now: its beginning must stay as it is.
    content = "".join((*kept, text[done:])).rstrip()
    return (content if kept[0].strip() else content.lstrip()), tuple(functions)


def _read(text: str, start: int, formats: Sequence[ToolFormat], tools: Tools) -> Block | None:
    """The block at `start`, by the first format that finds one."""
    for fmt in formats:
        if text.startswith(fmt.openings, start):
            block = fmt.read(text, start, tools)
            if block is not None:
                return block
    return None


def _openings(formats: Sequence[ToolFormat]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(opening for fmt in formats for opening in fmt.openings))


def _pattern(formats: Sequence[ToolFormat]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, _openings(formats))))  # compiled once: re keeps it


class ToolCallStream:
    """Streams the content of an answer and keeps back what is, or may become, a tool call.

    Invariant: what is sent is a beginning of the content `parse_tool_calls` gives for the whole answer.
    """

    def __init__(self, formats: Sequence[ToolFormat], tools: Tools, id_prefix: str) -> None:
        self._formats = tuple(formats)
        self._openings = _openings(formats)
        self._pattern = _pattern(formats)
        self._tools = tools
        self._id_prefix = id_prefix
        self._text = ""
        self._sent = 0
        self._may_be_bare = True

    def push(self, piece: str) -> str:
        """The content that is certainly no call."""
        self._text += piece
        if not self._tools:
            return self._send(len(self._text))
        self._may_be_bare = self._may_be_bare and may_be_bare(self._text)
        if self._may_be_bare:
            return ""
        found = self._pattern.search(self._text, self._sent)
        # White space before an opening belongs to the call, and the text's end may become an opening.
        end = found.start() if found else len(self._text) - held_length(self._text, self._openings)
        return self._send(len(self._text[:end].rstrip()))

    def finish(self) -> ParsedText:
        """The content not sent yet, and the calls."""
        if not self._tools:
            return ParsedText("", ())
        parsed = parse_tool_calls(self._text, self._formats, self._tools, self._id_prefix)
        return ParsedText(parsed.content[self._sent :], parsed.tool_calls)

    def _send(self, end: int) -> str:
        piece = self._text[self._sent : end]
        self._sent = max(self._sent, end)
        return piece
