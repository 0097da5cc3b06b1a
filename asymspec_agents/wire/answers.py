"""Answers in OpenAI's form, written: whole objects and the chunks of a stream, with AsymSpec's report.

Source: OpenAI API reference (chat completion object and chunk, completion object); `reasoning` as vLLM writes
it. The report stands in `asymspec`, in a stream on the chunk with the finish reason.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..backends.answer import ChatDelta, ChatResponse, Usage
from ..messages import ToolCall
from ..protocol import AsymSpecReport

__all__ = ["AnswerWriter", "ChatWriter", "CompletionWriter"]


@dataclass(slots=True)
class AnswerWriter(ABC):
    """Writes one answer, as a whole or chunk by chunk."""

    request_id: str
    model: str
    created: int = field(default_factory=lambda: int(time.time()))
    num_calls: int = 0

    @abstractmethod
    def opening(self) -> list[dict[str, Any]]:
        """The chunks before any text."""

    @abstractmethod
    def whole(self, response: ChatResponse) -> dict[str, Any]:
        """The answer as one object."""

    @abstractmethod
    def chunks(self, delta: ChatDelta) -> list[dict[str, Any]]:
        """The chunks of one step."""

    def usage_chunk(self, usage: Usage, report: AsymSpecReport | None) -> dict[str, Any]:
        """The chunk for a client that asked for usage."""
        return {**self.head("chunk"), "choices": [], "usage": _usage(usage, report)}

    @abstractmethod
    def head(self, kind: str) -> dict[str, Any]:
        """The fields that every object of this answer begins with."""


class ChatWriter(AnswerWriter):
    """Writes chat completions."""

    def head(self, kind: str) -> dict[str, Any]:
        suffix = ".chunk" if kind == "chunk" else ""
        return {
            "id": f"chatcmpl-{self.request_id}",
            "object": f"chat.completion{suffix}",
            "created": self.created,
            "model": self.model,
        }

    def opening(self) -> list[dict[str, Any]]:
        return [self._chunk({"role": "assistant", "content": ""})]

    def whole(self, response: ChatResponse) -> dict[str, Any]:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": response.content if response.content or not response.tool_calls else None,
            "refusal": None,
        }
        if response.reasoning:
            message["reasoning"] = response.reasoning
        if response.tool_calls:
            message["tool_calls"] = [_call(call) for call in response.tool_calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": response.finish_reason}
        return _with_report(
            {
                **self.head("whole"),
                "choices": [choice],
                "usage": _usage(response.usage, response.report),
            },
            response.report,
        )

    def chunks(self, delta: ChatDelta) -> list[dict[str, Any]]:
        chunks = []
        if delta.reasoning:
            chunks.append(self._chunk({"reasoning": delta.reasoning}))
        if delta.content:
            chunks.append(self._chunk({"content": delta.content}))
        if delta.tool_calls:
            chunks.append(self._chunk({"tool_calls": self._call_deltas(delta.tool_calls)}))
        if delta.finish_reason is not None:
            chunks.append(_with_report(self._chunk({}, delta.finish_reason), delta.report))
        return chunks

    def _chunk(self, delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        return {**self.head("chunk"), "choices": [choice]}

    def _call_deltas(self, calls: Sequence[ToolCall]) -> list[dict[str, Any]]:
        first = self.num_calls
        self.num_calls += len(calls)
        return [{"index": index, **_call(call)} for index, call in enumerate(calls, first)]


class CompletionWriter(AnswerWriter):
    """Writes text completions."""

    def head(self, kind: str) -> dict[str, Any]:
        return {
            "id": f"cmpl-{self.request_id}",
            "object": "text_completion",
            "created": self.created,
            "model": self.model,
        }

    def opening(self) -> list[dict[str, Any]]:
        return []

    def whole(self, response: ChatResponse) -> dict[str, Any]:
        return _with_report(
            {
                **self.head("whole"),
                "choices": [self._choice(response.content, response.finish_reason)],
                "usage": _usage(response.usage, response.report),
            },
            response.report,
        )

    def chunks(self, delta: ChatDelta) -> list[dict[str, Any]]:
        if not delta.content and delta.finish_reason is None:
            return []
        chunk = {**self.head("chunk"), "choices": [self._choice(delta.content, delta.finish_reason)]}
        return [_with_report(chunk, delta.report)]

    def _choice(self, text: str, finish_reason: str | None) -> dict[str, Any]:
        return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _with_report(answer: dict[str, Any], report: AsymSpecReport | None) -> dict[str, Any]:
    if report is not None:
        answer["asymspec"] = report.model_dump(mode="json")
    return answer


def _call(call: ToolCall) -> dict[str, Any]:
    return {"type": "function", **call.wire()}


def _usage(usage: Usage, report: AsymSpecReport | None) -> dict[str, Any]:
    """OpenAI's usage object: what the verifier read and wrote, and how many drafts were right.

    A report counts whole blocks, usage only what the answer kept of the last one.
    """
    written: dict[str, Any] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
    if report is not None and report.drafted:
        written["completion_tokens_details"] = {
            "accepted_prediction_tokens": min(report.accepted, usage.completion_tokens),
            "rejected_prediction_tokens": report.drafted - report.accepted,
        }
    return written
