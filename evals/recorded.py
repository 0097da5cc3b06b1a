"""An arm as a backend: requests with both views reach it as it wants them, and every call is recorded."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from asymspec_agents.backends import (
    AnyRequest,
    Backend,
    Capabilities,
    ChatDelta,
    ChatRequest,
    ChatResponse,
    PromptCounter,
    collect,
)
from asymspec_agents.errors import UnsupportedRequestError

from .answering import Answering
from .call_record import Heard, call_of
from .records import Call

__all__ = ["RecordedBackend"]

Keep = Callable[[Call, ChatRequest], None]


@dataclass(slots=True)
class _Running:
    """A call until now."""

    asked: ChatRequest
    sent: ChatRequest
    started_s: float = field(default_factory=time.monotonic)
    first_s: float | None = None
    deltas: list[ChatDelta] = field(default_factory=list)
    whole: ChatResponse | None = None
    error: BaseException | None = None

    def add(self, delta: ChatDelta) -> None:
        if self.first_s is None:
            self.first_s = time.monotonic() - self.started_s
        self.deltas.append(delta)

    def heard(self) -> Heard:
        """What came back, whole or not."""
        elapsed_s = time.monotonic() - self.started_s
        last = self.deltas[-1] if self.deltas else ChatDelta()
        if self.error is None and last.finish_reason is not None and last.usage is not None:
            self.whole = collect(self.deltas)
        if self.whole is not None:
            return Heard.of(self.whole, elapsed_s, self.first_s)
        segments = tuple(segment for delta in self.deltas for segment in delta.segments)
        text = "".join(delta.content for delta in self.deltas)
        ending = "aborted" if isinstance(self.error, GeneratorExit) else "error"
        return Heard(text, segments, ending, None, None, elapsed_s, self.first_s)


class RecordedBackend(Backend):
    """Answers as the arm does; `keep` gets the record of each call with the request as it was asked.

    A call that fails, or that its caller leaves, is recorded with what was done for it until then. All calls
    have one `cache_salt`, so an agent's turns find their own caches and no others.
    """

    def __init__(self, answering: Answering, keep: Keep, *, cache_salt: str) -> None:
        self._answering = answering
        self._keep = keep
        self._cache_salt = cache_salt

    @property
    def capabilities(self) -> Capabilities:
        return self._answering.backend.capabilities

    @property
    def prompt_counter(self) -> PromptCounter | None:
        return self._answering.backend.prompt_counter

    def generate(self, request: AnyRequest) -> ChatResponse:
        if self._answering.streams:
            return collect(self.stream(request))
        running = self._begin(request)
        try:
            running.whole = self._answering.backend.generate(running.sent)
            return running.whole
        except BaseException as error:
            running.error = error
            raise
        finally:
            self._end(running)

    async def agenerate(self, request: AnyRequest) -> ChatResponse:
        if self._answering.streams:
            async with aclosing(self.astream(request)) as deltas:  # type: ignore[type-var]
                return collect([delta async for delta in deltas])
        running = self._begin(request)
        try:
            running.whole = await self._answering.backend.agenerate(running.sent)
            return running.whole
        except BaseException as error:
            running.error = error
            raise
        finally:
            self._end(running)

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        running = self._begin(request)
        deltas: Iterator[ChatDelta] = iter(())
        try:
            deltas = self._answering.backend.stream(running.sent, abort=abort)
            for delta in deltas:
                running.add(delta)
                yield delta
        except BaseException as error:
            running.error = error
            raise
        finally:
            close = getattr(deltas, "close", None)
            if close is not None:  # what a caller leaves must have ended before it is counted
                close()
            self._end(running)

    async def astream(self, request: AnyRequest) -> AsyncIterator[ChatDelta]:
        running = self._begin(request)
        try:
            async with aclosing(self._answering.backend.astream(running.sent)) as deltas:  # type: ignore[type-var]
                async for delta in deltas:
                    running.add(delta)
                    yield delta
        except BaseException as error:
            running.error = error
            raise
        finally:
            self._end(running)

    def _begin(self, request: AnyRequest) -> _Running:
        if not isinstance(request, ChatRequest):
            raise UnsupportedRequestError("an evaluated arm answers chats only, no text completions")
        sent = self._answering.put(request)
        if self._answering.salts:
            sent = replace(sent, cache_salt=self._cache_salt)
        if self._answering.events is not None:
            self._answering.events.watch(sent.request_id)
        return _Running(request, sent)

    def _end(self, running: _Running) -> None:
        events = self._answering.events
        own = () if events is None else events.take(running.sent.request_id)
        self._keep(call_of(running.heard(), own, self._answering), running.asked)
