"""A gateway's endpoint: a client's request in, limited and read; its answer out, whole or as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ..server.body import read_body
from ..server.failing import RefusedError, failure_response, logged_failure
from ..server.leaving import left
from ..wire.json_body import unambiguous_object
from .answer import Answer, Call
from .events import failure_events
from .failing import STOPPING, UpstreamError
from .forwarding import INLINE_BYTES, Forwarder
from .limits import ClientLimits
from .passage import Passage, Passages
from .preparing import CHAT
from .splicing import encoded
from .translation import Translate, Translation

__all__ = ["Endpoint"]

_closing: set[asyncio.Future[None]] = set()  # kept from the garbage collector until they are done
GONE = 499  # what servers log for a client that left; nobody receives it


class Endpoint:
    """Answers requests of one path; with `translate`, those of another API than the upstream's."""

    def __init__(
        self,
        path: str,
        forwarder: Forwarder,
        limits: ClientLimits,
        passages: Passages,
        max_body_bytes: int,
        translate: Translate | None = None,
    ) -> None:
        self._path = path
        self._forwarder = forwarder
        self._limits = limits
        self._passages = passages
        self._max_body_bytes = max_body_bytes
        self._translate = translate

    async def respond(self, request: Request) -> Response:
        """The response, whatever happens."""
        tenant: str | None = request.state.tenant
        try:
            self._limits.enter(tenant)
        except RefusedError as error:
            return failure_response(error.failure)
        passage = self._passages.begin(self._path, lambda: self._limits.leave(tenant))
        response: Response | None = None
        try:
            response = await self._respond(request, passage)
        except ClientDisconnect:
            response = Response(status_code=GONE)
        except (UpstreamError, RefusedError) as error:
            response = failure_response(error.failure)
        except Exception as error:
            response = failure_response(logged_failure(error, request.state.request_id))
        finally:
            if not isinstance(response, PassedStream):
                passage.end(GONE if response is None else response.status_code)
        return response

    async def _respond(self, request: Request, passage: Passage) -> Response:
        body = await read_body(request, self._max_body_bytes)
        answer, translation = await self._race(request, passage, self._forwarded(request, body))
        if answer.chunks is not None:
            chunks: AsyncIterator[bytes] = answer.chunks
            if translation is not None:
                chunks = translation.events(chunks)
            return PassedStream(answer, chunks, passage, request.state.request_id)
        content = answer.content
        if translation is not None and answer.status == 200:
            content = translation.answer(content)
        return _response(answer, content)

    async def _forwarded(self, request: Request, body: bytes) -> tuple[Answer, Translation | None]:
        call, translation = await self._call(request, body)
        return await self._forwarder.forward(call), translation

    async def _call(self, request: Request, body: bytes) -> tuple[Call, Translation | None]:
        def read() -> tuple[str, bytes, dict[str, Any], Translation | None]:
            fields = unambiguous_object(body)
            if self._translate is None:
                return self._path, body, fields, None
            translation = self._translate(fields)
            chat = dict(translation.chat_body)
            return CHAT, encoded(chat), chat, translation

        path, raw, fields, translation = (
            read() if len(body) <= INLINE_BYTES else await asyncio.to_thread(read)
        )
        call = Call(
            path=path,
            raw=raw,
            fields=fields,
            headers=request.headers.raw,
            request_id=request.state.request_id,
            tenant=request.state.tenant,
            query=request.url.query,
        )
        return call, translation

    async def _race(
        self,
        request: Request,
        passage: Passage,
        work: Coroutine[Any, Any, tuple[Answer, Translation | None]],
    ) -> tuple[Answer, Translation | None]:
        """The work's result, unless the client leaves or the gateway stops before; either ends the work."""
        working = asyncio.create_task(work)
        leaving = asyncio.create_task(left(request.receive))
        stopping = asyncio.create_task(passage.stopped.wait())
        try:
            await asyncio.wait((working, leaving, stopping), return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            if stopping.done():
                raise RefusedError(STOPPING)
            raise ClientDisconnect
        except BaseException:
            working.add_done_callback(_abandon)
            raise
        finally:
            for task in (working, leaving, stopping):
                task.cancel()
            await asyncio.gather(working, leaving, stopping, return_exceptions=True)


class PassedStream(Response):
    """Sends an upstream's events as they come, until the client leaves or the gateway stops at most."""

    def __init__(
        self, answer: Answer, chunks: AsyncIterator[bytes], passage: Passage, request_id: str
    ) -> None:
        super().__init__(status_code=answer.status)
        self.raw_headers = _with_defaults(answer.headers)
        self._answer = answer
        self._chunks = chunks
        self._passage = passage
        self._request_id = request_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._send(send))
        leaving = asyncio.create_task(left(receive))
        stopping = asyncio.create_task(self._passage.stopped.wait())
        tasks = (sending, leaving, stopping)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            is_left = leaving.done() and not sending.done()
            is_cut = stopping.done() and not sending.done()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._answer.aclose()
            self._passage.end(GONE if is_left else STOPPING.status if is_cut else self.status_code)
        if is_cut:
            await send({"type": "http.response.body", "body": failure_events(STOPPING), "more_body": False})

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for chunk in self._chunks:
                await send({"type": "http.response.body", "body": chunk, "more_body": True})
        except Exception as error:  # the status is sent already: the stream itself has to say it
            failed = failure_events(logged_failure(error, self._request_id))
            await send({"type": "http.response.body", "body": failed, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _abandon(working: asyncio.Task[tuple[Answer, Translation | None]]) -> None:
    """Closes an answer that came at the very moment when nobody wanted it any more."""
    if not working.cancelled() and working.exception() is None:
        answer, _ = working.result()
        closing = asyncio.ensure_future(answer.aclose())
        _closing.add(closing)
        closing.add_done_callback(_closing.discard)


def _response(answer: Answer, content: bytes) -> Response:
    response = Response(content, status_code=answer.status)
    response.raw_headers = [*answer.headers, (b"content-length", str(len(content)).encode())]
    return response


def _with_defaults(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """A stream's headers, with what keeps other proxies from holding it back."""
    names = {name for name, _ in headers}
    defaults = ((b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
    return [*headers, *((name, value) for name, value in defaults if name not in names)]
