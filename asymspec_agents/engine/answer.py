"""A model's answer in its own format, taken apart: reasoning, content, tool calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from ..messages import ToolCall, ToolSpec
from .reasoning import AnswerPiece, ReasoningMarks, ReasoningStream, marks_of
from .tool_calls import ToolCallStream
from .tool_formats.base import ToolFormat, Tools
from .tool_formats.table import formats_of

__all__ = ["PLAIN", "AnswerFormat", "AnswerPiece", "AnswerStream", "ParsedAnswer"]


@dataclass(frozen=True, slots=True)
class AnswerFormat:
    """How a model marks tool calls and reasoning, by its chat template and its tokens.

    `special_tokens` are the marks which are special tokens, by id: decoding drops those unless it is told to
    keep them.
    """

    tool_formats: tuple[ToolFormat, ...]
    reasoning: ReasoningMarks | None
    special_tokens: Mapping[int, str]

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> AnswerFormat:
        """The format of a tokenizer's model."""
        template = tokenizer.chat_template or ""
        if isinstance(template, Mapping):  # several templates by name, one of them for tools
            template = "\n".join(template.values())
        added = tokenizer.added_tokens_decoder
        formats = formats_of(template, {token.content for token in added.values()})
        reasoning = marks_of(template)
        marks = _tool_marks(formats) | _reasoning_marks(reasoning)
        special = {i: t.content for i, t in added.items() if t.special and t.content in marks}
        return cls(formats, reasoning, special)


PLAIN = AnswerFormat((), None, {})
"""The format of a text in which nothing is marked."""


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """What was not sent yet of content and reasoning, and all tool calls, arguments as JSON objects."""

    content: str
    reasoning: str
    tool_calls: tuple[ToolCall, ...]


class AnswerStream:
    """Takes one answer apart as it comes; without tools nothing is a call.

    `prompt_tail` is the end of the prompt's text, which may have opened or closed the reasoning. Ids of calls
    are `id_prefix` and a number. Invariant: however the answer is cut, the pieces and what `finish` gives
    concatenate to the same content and reasoning, and nothing of a call is ever sent as content.
    """

    def __init__(
        self, answer_format: AnswerFormat, tools: Sequence[ToolSpec], id_prefix: str, prompt_tail: str
    ) -> None:
        offered = Tools.of(tools)
        self._reasoning = ReasoningStream(answer_format.reasoning, prompt_tail)
        self._calls = ToolCallStream(answer_format.tool_formats, offered, id_prefix)
        marks = _reasoning_marks(self._reasoning.marks)
        if offered:
            marks |= _tool_marks(answer_format.tool_formats)
        self.visible_tokens: Mapping[int, str] = {
            i: text for i, text in answer_format.special_tokens.items() if text in marks
        }
        """The special tokens that must reach this stream as text, by id."""

    def push(self, piece: str) -> AnswerPiece:
        """The content and the reasoning that are certain by now."""
        split = self._reasoning.push(piece)
        return AnswerPiece(self._calls.push(split.content), split.reasoning)

    def finish(self) -> ParsedAnswer:
        """The rest, and the calls."""
        split = self._reasoning.finish()
        first = self._calls.push(split.content)
        rest = self._calls.finish()
        return ParsedAnswer(first + rest.content, split.reasoning, rest.tool_calls)


def _tool_marks(formats: Sequence[ToolFormat]) -> frozenset[str]:
    return frozenset(mark for fmt in formats for mark in (*fmt.openings, *fmt.marks))


def _reasoning_marks(marks: ReasoningMarks | None) -> frozenset[str]:
    return frozenset((marks.opening, marks.closing)) if marks else frozenset()
