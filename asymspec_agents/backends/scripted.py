"""A backend that answers from a script: the public test double for agents, routers and integrations."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from ..errors import BackendError
from ..messages import ToolCall
from ..protocol import AsymSpecReport
from .answer import ChatDelta, ChatResponse, Segment, Usage
from .base import Backend, Capabilities
from .request import AnyRequest

__all__ = ["ScriptedBackend", "scripted_response"]

Reply = str | ChatResponse | BaseException


def scripted_response(
    content: str = "", *, tool_calls: Iterable[ToolCall] = (), report: AsymSpecReport | None = None
) -> ChatResponse:
    """A whole answer with the given content and calls, for a ScriptedBackend; usage counts words."""
    calls = tuple(tool_calls)
    return ChatResponse(
        content,
        calls,
        "tool_calls" if calls else "stop",
        Usage(0, len(content.split())),
        report,
        (Segment(content, "plain"),),
    )


class ScriptedBackend(Backend):
    """Answers each request with the script's next reply, or with a handler's reply to it.

    A reply is a text, a ChatResponse, or an exception to raise. `requests` records every request in order.
    `drafter` is a name only, by default the model's. An exhausted script raises BackendError. To an AsymSpec
    request without a scripted report it answers with an empty report, as an AsymSpec server would.
    """

    def __init__(
        self,
        script: Iterable[Reply] | Callable[[AnyRequest], Reply],
        *,
        model: str = "scripted",
        drafter: str | None = None,
    ) -> None:
        self._handler = script if callable(script) else None
        self._replies = iter(()) if callable(script) else iter(script)
        self._lock = threading.Lock()
        self._capabilities = Capabilities(verifier=model, drafter=drafter or model, modes=("asymspec",))
        self.requests: list[AnyRequest] = []

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def _next(self, request: AnyRequest) -> Reply:
        with self._lock:
            self.requests.append(request)
            if self._handler is None:
                try:
                    return next(self._replies)
                except StopIteration:
                    raise BackendError(f"the script has no reply for request {len(self.requests)}") from None
        return self._handler(request)  # outside the lock: a handler may itself ask this backend

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        reply = self._next(request)
        if isinstance(reply, BaseException):
            raise reply
        response = scripted_response(reply) if isinstance(reply, str) else reply
        report = response.report
        if report is None and request.asymspec is not None:
            report = AsymSpecReport(mode=request.asymspec.mode_name)
        for word in response.content.splitlines(keepends=True):
            yield ChatDelta(content=word)
        yield ChatDelta(
            tool_calls=response.tool_calls,
            segments=response.segments,
            finish_reason=response.finish_reason,
            usage=response.usage,
            report=report,
        )
