"""Any AsymSpec server as a backend: this package's own `asymspec serve`, or vLLM with the plugin."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Literal

from ..errors import BackendError, ConfigurationError, RequestAbortedError
from ..messages import Message, ToolSpec
from ..recording import NULL_RECORDER, Recorder
from ..wire.reading import ChunkReader, read_response
from .answer import ChatDelta, ChatResponse
from .base import Backend, Capabilities, PromptCounter
from .connection_options import ConnectionOptions
from .plain_arms import check_arm
from .recorded_call import CallRecord
from .remote import Remote, closed_error
from .request import AnyRequest

__all__ = ["HTTPBackend"]

ABORT_POLL_S = 0.05

_Step = ChatDelta | Future[None]  # the stream's own future comes last


class HTTPBackend(Backend):
    """Answers through a server at `base_url`, from synchronous and asynchronous callers alike.

    The first use asks the server what it is. `on_missing_asymspec`: a server that does not speak AsymSpec is
    an error, or ("warn") answers from the full context after one warning. `model` defaults to the server's
    verifier. Closing a stream, cancelling a task or setting `abort` closes the connection, which makes the
    server stop. A refusal comes back as the exception a LocalBackend raises; further errors are
    ConnectionFailedError, ResponseTimeoutError, ServerError and NotAsymSpecError. `recorder` is given one
    `call` event a call, when it has ended.
    """

    def __init__(
        self,
        base_url: str,
        *,
        api_key: str | None = None,
        model: str | None = None,
        on_missing_asymspec: Literal["error", "warn"] = "error",
        timeout_s: float = 600.0,
        connect_timeout_s: float = 10.0,
        max_retries: int = 3,
        headers: Mapping[str, str] | None = None,
        recorder: Recorder = NULL_RECORDER,
    ) -> None:
        if on_missing_asymspec not in ("error", "warn"):
            raise ConfigurationError(f"on_missing_asymspec={on_missing_asymspec!r} must be 'error' or 'warn'")
        options = ConnectionOptions(
            base_url=base_url,
            api_key=api_key,
            timeout_s=timeout_s,
            connect_timeout_s=connect_timeout_s,
            max_retries=max_retries,
            headers=dict(headers or {}),
        )
        self._server = Remote(options, model, on_missing_asymspec)
        self._recorder = recorder
        self.arm = "asymspec"
        self._model: str | None = None  # where it is not the one all arms share

    def __repr__(self) -> str:
        return f"HTTPBackend({self._server.options.base_url!r}, arm={self.arm!r})"

    @property
    def base_url(self) -> str:
        """The server's address, without the `/v1` of its API."""
        return self._server.options.base_url

    def with_arm(self, arm: str) -> HTTPBackend:
        """A backend over the same server that answers AsymSpec requests by another arm.

        "floor" and "ceiling" are the server's verifier on the compressed and on the full view, "drafter" its
        drafter on the full view; each is asked as a plain request.
        """
        check_arm(arm)
        return self._sibling(arm, self._model)

    def with_model(self, name: str) -> HTTPBackend:
        """A backend over the same server that asks for this model; the drafter's name asks for its arm.

        The server refuses names that it does not know.
        """
        return self._sibling(self.arm, name)

    def _sibling(self, arm: str, model: str | None) -> HTTPBackend:
        other = object.__new__(type(self))
        other._server, other._recorder = self._server, self._recorder
        other.arm, other._model = arm, model
        return other

    @property
    def capabilities(self) -> Capabilities:
        """What the server says of itself; asks it at the first call."""
        return self._server.run(self._server.info()).capabilities()

    @property
    def prompt_counter(self) -> PromptCounter | None:
        return self.count_prompt if self._server.run(self._server.info()).tokenize else None

    def count_prompt(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int:
        """Exact number of tokens of a prompt, counted by the server; its chat template included."""
        return self._server.run(self._server.count(messages, tools, self._model))

    def generate(self, request: AnyRequest) -> ChatResponse:
        return self._server.run(self._whole(request))

    async def agenerate(self, request: AnyRequest) -> ChatResponse:
        future = asyncio.wrap_future(self._server.loop.submit(self._whole(request)))
        try:
            await asyncio.wait((future,))  # does not take the future's cancelling for the caller's
        except BaseException:
            future.cancel()
            raise
        if future.cancelled():
            raise closed_error()
        return future.result()

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        if abort is not None and abort.is_set():
            raise _aborted(request)
        steps: queue.SimpleQueue[_Step] = queue.SimpleQueue()
        future = self._server.loop.submit(self._pump(request, steps.put))
        future.add_done_callback(steps.put)
        try:
            while True:
                try:
                    step = steps.get(timeout=None if abort is None else ABORT_POLL_S)
                except queue.Empty:
                    step = None
                if abort is not None and abort.is_set():
                    raise _aborted(request)
                if isinstance(step, Future):
                    _check_whole(step)
                    return
                if step is not None:
                    yield step
        finally:
            future.cancel()

    async def astream(self, request: AnyRequest) -> AsyncIterator[ChatDelta]:
        loop = asyncio.get_running_loop()
        steps: asyncio.Queue[_Step] = asyncio.Queue()

        def put(step: _Step) -> None:
            with contextlib.suppress(RuntimeError):  # the caller's loop is closed: nobody waits any more
                loop.call_soon_threadsafe(steps.put_nowait, step)

        future = self._server.loop.submit(self._pump(request, put))
        future.add_done_callback(put)
        try:
            while True:
                step = await steps.get()
                if isinstance(step, Future):
                    _check_whole(step)
                    return
                yield step
        finally:
            future.cancel()

    def close(self) -> None:
        """Ends what is running and closes the connections, those of other arms too."""
        self._server.loop.stop()

    def _record(self, request: AnyRequest, *, is_stream: bool) -> CallRecord:
        return CallRecord(self._recorder, request, self.base_url, self.arm, is_stream=is_stream)

    async def _whole(self, request: AnyRequest) -> ChatResponse:
        with self._record(request, is_stream=False) as record:
            call = await self._server.call(request, self.arm, self._model)
            headers = record.sent(call)
            answer = await self._server.connection().post(call.path, call.body, request.request_id, headers)
            response = read_response(answer)
            response = replace(response, report=call.report(response.report, response.usage))
            record.whole(response)
            return response

    async def _pump(self, request: AnyRequest, put: Callable[[ChatDelta], object]) -> None:
        async for delta in self._deltas(request):
            put(delta)

    async def _deltas(self, request: AnyRequest) -> AsyncIterator[ChatDelta]:
        with self._record(request, is_stream=True) as record:
            call = await self._server.call(request, self.arm, self._model)
            headers = record.sent(call)
            body = {**call.body, "stream": True, "stream_options": {"include_usage": True}}
            reader = ChunkReader()
            events = self._server.connection().events(call.path, body, request.request_id, headers)
            async for chunk in events:
                delta = reader.feed(chunk)
                if delta is not None:
                    record.delta(delta)
                    yield delta
            if not reader.is_whole:
                raise BackendError("the server ended the stream without a finish reason")
            last = reader.last()
            last = replace(last, report=call.report(last.report, last.usage))
            record.delta(last)
            record.end(last.finish_reason, last.usage, last.report)
            yield last


def _check_whole(end: Future[None]) -> None:
    """Raises what ended the stream before its time."""
    try:
        end.result()
    except CancelledError:
        raise closed_error() from None


def _aborted(request: AnyRequest) -> RequestAbortedError:
    return RequestAbortedError(f"request {request.request_id} was aborted")
