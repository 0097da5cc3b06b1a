"""The way of a call: to its upstream, with both views where that speaks AsymSpec, and its answer back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

import anyio
import httpx

from ..errors import BackendError
from ..recording import for_request
from ..server.failing import RefusedError
from ..wire.failures import Failure
from .answer import Answer, Call
from .checking import CheckedCall, Guarded
from .events import EventTap, failure_events, whole_events
from .failing import UpstreamError, model_missing, upstream_failure
from .headers import RawHeaders, answer_headers, request_headers
from .options import GatewayOptions
from .preparing import (
    CHAT,
    Prepared,
    both_views,
    compressed_view,
    own_compressed_view,
    untouched,
    with_texts,
    without_asymspec,
)
from .upstream import MakeRouter, Upstream

__all__ = ["Forwarder", "Observer"]

MAX_ANSWER_BYTES = 64 * 1024**2
INLINE_BYTES = 16 * 1024  # bodies up to this are read in the loop, as a thread would take longer


class Observer(Protocol):
    """Told of what the gateway forwards; called in the event loop, must be quick and must not raise."""

    def began(self, call: Call) -> None:
        """A call has come."""

    def headers(self, call: Call) -> RawHeaders:
        """Headers to send with the call, in place of the client's of the same names."""

    def prepared(self, call: Call, prepared: Prepared, speaks_asymspec: bool) -> None:
        """A call is about to be sent."""

    def wants_answer(self, call: Call, prepared: Prepared) -> bool:
        """Whether the answer's bytes are to be kept for `answered`."""

    def failed(self, call: Call, failure: Failure) -> None:
        """The upstream failed to answer, or to end its answer."""

    def answered(
        self, call: Call, prepared: Prepared, upstream: Upstream, tap: EventTap, elapsed_s: float
    ) -> None:
        """An answer of status 200 is whole, so many seconds after its call was sent."""


@dataclass(frozen=True, slots=True)
class _Sent:
    """A call that is on its way."""

    call: Call
    prepared: Prepared
    upstream: Upstream
    started_s: float


class Forwarder:
    """Sends calls to their upstreams."""

    def __init__(
        self,
        options: GatewayOptions,
        make_router: MakeRouter,
        guard: Guarded | None,
        observer: Observer,
    ) -> None:
        self._options = options
        self._guard = guard
        self._observer = observer
        self.default = None if options.upstream is None else Upstream(options.upstream, options, make_router)
        self.routes = {
            name: Upstream(upstream, options, make_router) for name, upstream in options.routes.items()
        }

    @property
    def upstreams(self) -> tuple[Upstream, ...]:
        """All of them."""
        default = () if self.default is None else (self.default,)
        return (*default, *self.routes.values())

    def choose(self, model: str | None) -> Upstream:
        """The upstream of a model. Raises RefusedError where there is none."""
        upstream = self.default if model is None else self.routes.get(model, self.default)
        if upstream is None:
            raise RefusedError(model_missing(model, tuple(self.routes)))
        return upstream

    async def close(self) -> None:
        """Closes all connections."""
        for upstream in self.upstreams:
            await upstream.close()

    async def forward(self, call: Call) -> Answer:
        """The upstream's answer, an error answer as well.

        Raises what routing raises, RefusedError for a call that is not sent, UpstreamError for one that is
        not answered. What goes wrong later stands in the answer's chunks.
        """
        upstream = self.choose(call.model)
        self._observer.began(call)
        authorization = dict(call.headers).get(b"authorization")
        try:
            speaks = await upstream.info(authorization) is not None
            with for_request(call.request_id):
                prepared = await self._prepared(call, upstream, speaks)
            if self._guard is not None:
                full = prepared.full
                if prepared.report is None:  # it was not routed, which reads files
                    full = await asyncio.to_thread(with_texts, full, upstream.router)
                await self._guard(CheckedCall(call.request_id, call.path, call.model, full))
            self._observer.prepared(call, prepared, speaks)
            own = self._observer.headers(call)
            replaced = {name for name, _ in own}
            passed = [(name, value) for name, value in request_headers(call.headers) if name not in replaced]
            headers = upstream.authorized(passed + own, authorization)
            headers.append((b"x-request-id", call.request_id.encode("ascii")))
            started_s = time.monotonic()
            response = await upstream.post(call.target, prepared.content, headers)
        except UpstreamError as error:
            self._observer.failed(call, error.failure)
            raise
        return await self._answer(_Sent(call, prepared, upstream, started_s), response)

    async def _prepared(self, call: Call, upstream: Upstream, speaks: bool) -> Prepared:
        plain = self._options.on_plain_upstream
        if not speaks and plain == "refuse":
            text = (
                "the upstream does not speak AsymSpec, and this gateway is not configured to use it all the "
                "same (on_plain_upstream)"
            )
            raise UpstreamError(Failure(503, "upstream_not_asymspec", text))
        is_routed = call.path == CHAT and "asymspec" not in call.fields
        if is_routed and speaks:
            return await asyncio.to_thread(both_views, call, upstream.router, self._options.asymspec)
        if is_routed and plain == "compress":
            return await asyncio.to_thread(compressed_view, call, upstream.router)
        if "asymspec" in call.fields and not speaks:
            is_own = call.fields["asymspec"] is not None and call.path != "/tokenize"
            if is_own and plain == "compress":
                return await asyncio.to_thread(own_compressed_view, call)
            return await asyncio.to_thread(without_asymspec, call)
        if len(call.raw) <= INLINE_BYTES:
            return untouched(call, speaks)
        return await asyncio.to_thread(untouched, call, speaks)

    async def _answer(self, sent: _Sent, response: httpx.Response) -> Answer:
        call, prepared = sent.call, sent.prepared
        headers = answer_headers(response.headers.raw) + prepared.headers()
        status = response.status_code
        is_plain = "content-encoding" not in response.headers
        tap = EventTap(
            prepared.answer_report if is_plain else None, keeps=self._observer.wants_answer(call, prepared)
        )
        pieces = self._pieces(response)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        is_stream = status == 200 and kind == "text/event-stream"
        if is_stream and is_plain:
            chunks = self._chunks(sent, response, pieces, tap)
            return Answer(status, headers, chunks=chunks, close=response.aclose)
        try:
            if is_stream:
                raise BackendError("a stream in an encoding that was not asked for")
            content = await self._whole(pieces)
            sent.upstream.check_status(status)
            if status == 200 and is_plain:
                content = tap.whole(content)
        except (httpx.HTTPError, TimeoutError, BackendError) as error:
            failed = upstream_failure(error, self._options.idle_s)
            self._observer.failed(call, failed.failure)
            raise failed from error
        finally:
            await response.aclose()
        if status == 200:
            self._answered(sent, tap)
        return Answer(status, headers, content)

    async def _chunks(
        self, sent: _Sent, response: httpx.Response, pieces: AsyncGenerator[bytes, None], tap: EventTap
    ) -> AsyncGenerator[bytes, None]:
        """The answer's events; where they fail, an error event and the stream's end."""
        try:
            async with aclosing(pieces), aclosing(whole_events(pieces, tap)) as events:
                async for chunk in events:
                    yield chunk
        except (httpx.HTTPError, TimeoutError, BackendError) as error:
            failed = upstream_failure(error, self._options.idle_s)
            self._observer.failed(sent.call, failed.failure)
            yield failure_events(failed.failure)
        else:
            self._answered(sent, tap)
        finally:
            await response.aclose()

    def _answered(self, sent: _Sent, tap: EventTap) -> None:
        elapsed_s = time.monotonic() - sent.started_s
        self._observer.answered(sent.call, sent.prepared, sent.upstream, tap, elapsed_s)

    async def _pieces(self, response: httpx.Response) -> AsyncGenerator[bytes, None]:
        """The body's bytes as they come. Raises TimeoutError where none comes for too long."""
        pieces = response.aiter_raw()
        wait_s = self._options.first_byte_s
        while True:
            with anyio.fail_after(wait_s):
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield piece
            wait_s = self._options.idle_s

    async def _whole(self, pieces: AsyncIterator[bytes]) -> bytes:
        kept: list[bytes] = []
        num_bytes = 0
        async for piece in pieces:
            num_bytes += len(piece)
            if num_bytes > MAX_ANSWER_BYTES:
                raise BackendError(f"it is longer than {MAX_ANSWER_BYTES:,} bytes")
            kept.append(piece)
        return b"".join(kept)
