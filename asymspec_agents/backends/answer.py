"""What a backend answers: a stream of deltas, and the whole answer they add up to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..errors import BackendError
from ..messages import ToolCall
from ..protocol import AsymSpecReport

__all__ = ["ChatDelta", "ChatResponse", "FinishReason", "Origin", "Segment", "Usage", "collect"]

Origin = Literal["accepted", "fused", "bonus", "plain"]
FinishReason = Literal["stop", "length", "tool_calls"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call: the verifier's prompt (or the only model's), and the answer."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of emitted text and how its last token came about (`plain`: no speculation)."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """One step of a streamed answer; only the last has `finish_reason`, `usage` and `report`.

    `reasoning` is what a thinking model wrote before its answer; it is no part of `content`.
    """

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    segments: tuple[Segment, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    report: AsymSpecReport | None = None
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """A whole answer; `report` is None where the request was a plain completion."""

    content: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: Usage
    report: AsymSpecReport | None
    segments: tuple[Segment, ...] = ()
    reasoning: str = ""

    @property
    def raw_text(self) -> str:
        """The model's text before tool calls were parsed out of it, where the backend gives it."""
        return "".join(segment.text for segment in self.segments)


def collect(deltas: Iterable[ChatDelta]) -> ChatResponse:
    """The whole answer of a stream of deltas.

    Raises BackendError where the last one has no finish reason and usage: the answer is not whole.
    """
    content: list[str] = []
    reasoning: list[str] = []
    tool_calls: list[ToolCall] = []
    segments: list[Segment] = []
    last = ChatDelta()
    for last in deltas:
        content.append(last.content)
        reasoning.append(last.reasoning)
        tool_calls.extend(last.tool_calls)
        segments.extend(last.segments)
    if last.finish_reason is None or last.usage is None:
        raise BackendError("the stream ended without finish_reason and usage")
    return ChatResponse(
        "".join(content),
        tuple(tool_calls),
        last.finish_reason,
        last.usage,
        last.report,
        tuple(segments),
        "".join(reasoning),
    )
