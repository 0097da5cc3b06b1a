"""A thinking model's reasoning apart from its answer: one block, at the answer's beginning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["KINDS", "AnswerPiece", "ReasoningMarks", "ReasoningStream", "held_length", "marks_of"]

_NEWLINES = "\r\n"
# before: a block may begin · opened: by the prompt · leading, inside: in it · after: newlines behind it
_State = Literal["before", "opened", "leading", "inside", "after", "content"]
_START: dict[str, _State] = {"ahead": "before", "open": "opened", "closed": "content"}


@dataclass(frozen=True, slots=True)
class ReasoningMarks:
    """What a model writes around its reasoning."""

    opening: str
    closing: str

    def where(self, prompt_tail: str) -> Literal["open", "closed", "ahead"]:
        """Whether a prompt that ends so has opened the block, has closed it, or leaves it to the model."""
        tail = prompt_tail.rstrip()
        if tail.endswith(self.opening):
            return "open"
        return "closed" if tail.endswith(self.closing) else "ahead"


KINDS = (
    ReasoningMarks("<think>", "</think>"),
    ReasoningMarks("[THINK]", "[/THINK]"),
    ReasoningMarks("<seed:think>", "</seed:think>"),
    ReasoningMarks("<|START_THINKING|>", "<|END_THINKING|>"),
)


def marks_of(template: str) -> ReasoningMarks | None:
    """The marks a chat template knows, or None: a template that never mentions a block has no thinking."""
    return next((m for m in KINDS if m.opening in template or m.closing in template), None)


@dataclass(frozen=True, slots=True)
class AnswerPiece:
    """A stretch of the answer, split."""

    content: str = ""
    reasoning: str = ""


class ReasoningStream:
    """Splits an answer as it comes; newlines around the block belong to neither side.

    Invariant: the pieces concatenate to the same reasoning and content however the answer is cut.
    """

    def __init__(self, marks: ReasoningMarks | None, prompt_tail: str) -> None:
        self._marks = marks or ReasoningMarks("", "")
        self._state: _State = _START[marks.where(prompt_tail)] if marks else "content"
        self._text = ""  # not sent yet

    @property
    def marks(self) -> ReasoningMarks | None:
        """The marks that may still come; None once all the rest is content."""
        return None if self._state == "content" else self._marks

    def push(self, piece: str) -> AnswerPiece:
        """What is certain by now."""
        self._text += piece
        reasoning = ""
        if self._state in ("before", "opened"):
            self._begin()
        if self._state == "leading" and (text := self._text.lstrip(_NEWLINES)):
            self._text, self._state = text, "inside"
        if self._state == "inside":
            reasoning = self._inside()
        if self._state == "after" and (text := self._text.lstrip(_NEWLINES)):
            self._text, self._state = text, "content"
        content = self._take(len(self._text)) if self._state == "content" else ""
        return AnswerPiece(content, reasoning)

    def finish(self) -> AnswerPiece:
        """What was held back, at the end of the answer."""
        text = self._take(len(self._text))
        if self._state in ("opened", "leading"):
            return AnswerPiece(reasoning=text.strip(_NEWLINES))
        if self._state == "inside":
            return AnswerPiece(reasoning=text.rstrip(_NEWLINES))
        return AnswerPiece(text if self._state == "before" else "")

    def _begin(self) -> None:
        begin = self._text.lstrip()
        if begin.startswith(self._marks.opening):  # some models repeat what the prompt has opened
            self._text, self._state = begin[len(self._marks.opening) :], "leading"
        elif not self._marks.opening.startswith(begin):
            self._state = "leading" if self._state == "opened" else "content"

    def _inside(self) -> str:
        closing = self._marks.closing
        at = self._text.find(closing)
        if at < 0:
            end = len(self._text) - held_length(self._text, (closing,))
            return self._take(len(self._text[:end].rstrip(_NEWLINES)))
        self._state = "after"
        return self._take(at + len(closing))[:at].rstrip(_NEWLINES)

    def _take(self, length: int) -> str:
        taken, self._text = self._text[:length], self._text[length:]
        return taken


def held_length(text: str, marks: Sequence[str]) -> int:
    """Length of the longest end of `text` that one of the marks begins with, the whole mark aside."""
    longest = max((len(mark) for mark in marks), default=1) - 1
    for length in range(min(longest, len(text)), 0, -1):
        end = text[-length:]
        if any(len(mark) > length and mark.startswith(end) for mark in marks):
            return length
    return 0
