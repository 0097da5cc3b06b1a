"""The two completion endpoints: a request in, prepared, queued and decoded, its answer out in either form."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..backends.answer import ChatDelta, collect
from ..backends.base import Backend
from ..errors import BackendError, RequestAbortedError
from ..recording import NULL_RECORDER, Recorder, note_received
from ..wire import sse
from ..wire.answers import AnswerWriter
from ..wire.failures import Failure, failure_of
from ..wire.json_body import json_object
from ..wire.requests import Incoming
from .body import read_body
from .failing import NOT_SERVING, RefusedError, failure_response, logged_failure
from .leaving import left
from .options import ServerOptions
from .queue import Answer, DecodeQueue, NoStepYetError, Place, QueueFullError
from .rendering import ASCIIResponse

__all__ = ["Endpoint", "Models"]

Parse = Callable[..., Incoming]
GONE = 499  # what servers log for a client that left; nobody receives it


@dataclass(frozen=True, slots=True)
class Models:
    """The backends of a server by model name; the first one decodes with AsymSpec, others are plain."""

    backends: Mapping[str, Backend]

    @property
    def default(self) -> str:
        """The name of the verifier."""
        return next(iter(self.backends))

    def choose(self, incoming: Incoming) -> str:
        """The name of the model to answer; the default where the request names none."""
        name = self.default if incoming.model is None else incoming.model
        if name not in self.backends:
            known = ", ".join(self.backends)
            raise RefusedError(
                Failure(404, "model_not_found", f"model={name[:200]!r} is not here; models: {known}", "model")
            )
        if incoming.request.asymspec is not None and name != self.default:
            raise RefusedError(
                Failure(
                    400,
                    "unsupported_value",
                    f"asymspec: {name} answers plain requests only; send model={self.default!r}",
                    "asymspec",
                )
            )
        return name


class Endpoint:
    """One of the completion endpoints; `full_view` is the body's field that holds the full view.

    `recorder` is told of requests' headers, `refused` of the code of each that was not admitted.
    """

    def __init__(
        self,
        models: Models,
        queue: DecodeQueue,
        options: ServerOptions,
        parse: Parse,
        writer: Callable[[str, str], AnswerWriter],
        full_view: str,
        *,
        recorder: Recorder = NULL_RECORDER,
        refused: Callable[[str], None] = lambda code: None,
    ) -> None:
        self._models = models
        self._queue = queue
        self._options = options
        self._parse = parse
        self._writer = writer
        self._full_view = full_view
        self._recorder = recorder
        self._refused = refused

    async def respond(self, request: Request) -> Response:
        """The response, whatever happens."""
        request_id: str = request.state.request_id
        request.state.is_admitted = False
        note_received(self._recorder, request_id, request.headers)
        try:
            return await self._respond(request, request_id)
        except ClientDisconnect:
            return Response(status_code=GONE)
        except asyncio.CancelledError:  # only a server that stops cancels; its client shall hear so
            return failure_response(failure_of(RequestAbortedError("the server is stopping")))
        except Exception as error:
            failure = logged_failure(error, request_id, self._full_view)
            if not request.state.is_admitted:
                self._refused(failure.code)
            return failure_response(failure)

    async def _respond(self, request: Request, request_id: str) -> Response:
        body = await read_body(request, self._options.max_body_bytes)
        incoming = await asyncio.to_thread(self._read, body, request_id)
        model = self._models.choose(incoming)
        asked = _for_tenant(incoming, request.state.tenant)
        if not self._queue.is_alive:
            raise RefusedError(NOT_SERVING)
        try:
            place = self._queue.reserve()
        except QueueFullError as full:
            headers = {"retry-after": str(full.retry_after_s)}
            raise RefusedError(Failure(429, "queue_full", str(full), headers=headers)) from full
        writer = self._writer(request_id, model)
        try:
            deltas = await asyncio.to_thread(
                self._models.backends[model].stream, asked.request, abort=place.abort
            )
            answer = self._queue.submit(place, deltas)
            request.state.is_admitted = True
            if asked.is_stream:
                events = _events(answer, writer, asked.has_usage_chunk, self._options.keepalive_s, request_id)
                return EventStream(events, place)
            return await self._whole(request, answer, writer)
        except BaseException:
            place.give_up()
            raise

    def _read(self, body: bytes, request_id: str) -> Incoming:
        return self._parse(json_object(body), request_id=request_id)

    async def _whole(self, request: Request, answer: Answer, writer: AnswerWriter) -> Response:
        reading = asyncio.create_task(_read_all(answer))
        leaving = asyncio.create_task(left(request.receive))
        try:
            await asyncio.wait((reading, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                raise ClientDisconnect
            return ASCIIResponse(writer.whole(collect(reading.result())))
        finally:
            answer.place.give_up()
            reading.cancel()
            leaving.cancel()


class EventStream(Response):
    """Sends events until they end or the client leaves; either way the request's place is given up."""

    def __init__(self, events: AsyncIterator[bytes], place: Place) -> None:
        super().__init__(media_type="text/event-stream")
        del self.headers["content-length"]
        self.headers["cache-control"] = "no-cache"
        self.headers["x-accel-buffering"] = "no"  # proxies must pass tokens on as they come
        self._events = events
        self._place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(left(receive))
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # only a server that stops cancels; it closes the connection
            pass
        finally:
            self._place.give_up()
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for data in self._events:
            await send({"type": "http.response.body", "body": data, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _for_tenant(incoming: Incoming, tenant: str | None) -> Incoming:
    """The request with prefix caches of its own for each API key, whatever salt it brings."""
    if tenant is None:
        return incoming
    salt = f"{tenant}:{incoming.request.cache_salt or ''}"
    return replace(incoming, request=replace(incoming.request, cache_salt=salt))


async def _read_all(answer: Answer) -> list[ChatDelta]:
    deltas = []
    while (delta := await answer.next()) is not None:
        deltas.append(delta)
    return deltas


async def _events(
    answer: Answer, writer: AnswerWriter, has_usage_chunk: bool, keepalive_s: float, request_id: str
) -> AsyncIterator[bytes]:
    for chunk in writer.opening():
        yield _event(chunk)
    is_whole = False
    try:
        while True:
            try:
                delta = await answer.next(keepalive_s)
            except NoStepYetError:
                yield sse.COMMENT
                continue
            if delta is None:
                break
            is_whole |= delta.finish_reason is not None
            for chunk in writer.chunks(delta):
                yield _event(chunk)
            if has_usage_chunk and delta.usage is not None:
                yield _event(writer.usage_chunk(delta.usage, delta.report))
        if not is_whole:
            raise BackendError("the backend ended the answer without a finish reason")
    except Exception as error:  # the status is sent already: the stream itself has to say it
        yield _event(logged_failure(error, request_id).body())
    yield sse.event(sse.DONE)


def _event(chunk: Mapping[str, Any]) -> bytes:
    return sse.event(json.dumps(chunk, separators=(",", ":")))
