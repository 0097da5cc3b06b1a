"""What a client records of one call of a server: a single event, when the call has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from ..errors import RequestAbortedError
from ..protocol import AsymSpecReport
from ..recording import Recorder, headers_to_send
from .answer import ChatDelta, ChatResponse, Usage
from .remote import Call
from .request import AnyRequest, ChatRequest

__all__ = ["CallRecord"]

KINDS = ("drafted", "accepted", "fused", "bonus")


class CallRecord:
    """A context in which the call is made; what leaves it as an exception is recorded as the call's end."""

    def __init__(
        self, recorder: Recorder, request: AnyRequest, server: str, arm: str, *, is_stream: bool
    ) -> None:
        self._recorder = recorder
        self._request = request
        self._started_s = time.monotonic()
        self._first_s: float | None = None
        self._text: list[str] = []
        self._fields: dict[str, Any] = {
            "operation": "chat" if isinstance(request, ChatRequest) else "text_completion",
            "server": server,
            "arm": arm,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
            "is_stream": is_stream,
        }

    def __enter__(self) -> CallRecord:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is not None:
            is_left = issubclass(kind, asyncio.CancelledError | GeneratorExit)
            self._fields["error_type"] = (RequestAbortedError if is_left else kind).__name__
        if self._recorder.captures_content and kind is None:
            self._fields["text"] = "".join(self._text)
        self._recorder.record(
            "call",
            request_id=self._request.request_id,
            elapsed_s=time.monotonic() - self._started_s,
            time_to_first_token_s=self._first_s,
            **self._fields,
        )

    def sent(self, call: Call) -> Mapping[str, str]:
        """The call is about to be sent; the headers that the recorder wants to go with it."""
        self._fields |= {"arm": call.arm, "model": call.body.get("model")}
        return headers_to_send(self._recorder, self._request.request_id)

    def delta(self, delta: ChatDelta) -> None:
        """A step of the answer has come."""
        if self._first_s is None and (delta.content or delta.reasoning or delta.tool_calls):
            self._first_s = time.monotonic() - self._started_s
        if self._recorder.captures_content:
            self._text.append(delta.content)

    def whole(self, response: ChatResponse) -> None:
        """The answer has come in one piece."""
        self._text.append(response.content)
        self.end(response.finish_reason, response.usage, response.report)

    def end(self, finish_reason: str | None, usage: Usage | None, report: AsymSpecReport | None) -> None:
        """The answer is whole: what the server told of it."""
        self._fields["finish_reason"] = finish_reason
        if usage is not None:
            self._fields |= {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "cached_tokens": {"verifier": usage.cached_tokens},
            }
        if report is not None:
            self._fields |= {f"num_{kind}": getattr(report, kind) for kind in KINDS}
            self._fields |= {
                "mode": report.mode,
                "fallback": report.fallback,
                "cached_tokens": report.cached_tokens.model_dump(),
                "reader_tokens": {
                    "verifier": report.verifier_prompt_tokens,
                    "drafter": report.drafter_prompt_tokens,
                },
            }
