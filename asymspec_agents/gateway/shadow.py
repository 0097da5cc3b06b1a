"""A trial in production: a share of the calls is sent with the full view alone as well, after their answer.

That is the Ceiling: the verifier reads everything. Nothing a client waits for depends on it, and what is kept
of both answers is how far they agree.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from dataclasses import dataclass
from typing import Any

import anyio

from ..backends.answer import ChatDelta, ChatResponse, collect
from ..errors import BackendError
from ..recording import Recorder
from ..wire import sse
from ..wire.reading import ChunkReader, read_object, read_response
from .answer import Call
from .headers import request_headers
from .options import GatewayOptions
from .preparing import CHAT, Prepared, ceiling_body
from .shadow_summary import Comparison, ShadowSummary, compared
from .splicing import encoded
from .upstream import Upstream

__all__ = ["Shadow"]

MAX_WAITING_BYTES = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class _Answered:
    """A call that has its answer, of which `kept` are the bytes."""

    call: Call
    prepared: Prepared
    upstream: Upstream
    kept: bytes
    elapsed_s: float


class Shadow:
    """Sends calls again, one at a time; those that find the queue full are left out, and counted."""

    def __init__(self, options: GatewayOptions, recorder: Recorder) -> None:
        self._options = options
        self._recorder = recorder
        self._summary = ShadowSummary()
        self._waiting: asyncio.Queue[_Answered] | None = None
        self._num_bytes = 0
        self._working: asyncio.Task[None] | None = None

    def wants(self, call: Call, prepared: Prepared) -> bool:
        """Whether this call is of the share; the same body always is or never is, in every process."""
        if self._options.shadow_rate <= 0 or call.path != CHAT or prepared.report is None:
            return False
        drawn = int.from_bytes(hashlib.sha256(call.raw).digest()[:8], "big") / 2**64
        return drawn < self._options.shadow_rate

    def offer(
        self, call: Call, prepared: Prepared, upstream: Upstream, kept: bytes, elapsed_s: float
    ) -> None:
        """Lines up a call whose answer is whole."""
        if self._waiting is None:
            self._waiting = asyncio.Queue(self._options.max_shadow_waiting)
        num_bytes = len(prepared.content) + len(kept)
        if self._waiting.full() or self._num_bytes + num_bytes > MAX_WAITING_BYTES:
            self._summary.num_left_out += 1
            return
        self._num_bytes += num_bytes
        self._waiting.put_nowait(_Answered(call, prepared, upstream, kept, elapsed_s))
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work(self._waiting))

    def summary(self) -> dict[str, Any]:
        """How the answers and costs of this process's calls differed until now."""
        num_waiting = 0 if self._waiting is None else self._waiting.qsize()
        return {"rate": self._options.shadow_rate, "num_waiting": num_waiting, **self._summary.plain()}

    async def close(self) -> None:
        """Ends what runs; calls that wait are not sent."""
        if self._working is not None:
            self._working.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._working

    async def _work(self, waiting: asyncio.Queue[_Answered]) -> None:
        while not waiting.empty():
            answered = waiting.get_nowait()
            self._num_bytes -= len(answered.prepared.content) + len(answered.kept)
            try:
                comparison = await self._compared(answered)
            except Exception as error:  # of another server, or of an answer that no reader understands
                self._summary.num_failed += 1
                self._recorder.record(
                    "shadow", request_id=answered.call.request_id, error_type=type(error).__name__
                )
                continue
            self._summary.add(comparison)
            self._recorder.record("shadow", request_id=answered.call.request_id, **comparison.plain())

    async def _compared(self, answered: _Answered) -> Comparison:
        first = await asyncio.to_thread(_read, answered.kept)
        started_s = time.monotonic()
        second = await self._ceiling(answered)
        elapsed_s = time.monotonic() - started_s
        return await asyncio.to_thread(compared, first, second, answered.elapsed_s, elapsed_s)

    async def _ceiling(self, answered: _Answered) -> ChatResponse:
        call, upstream = answered.call, answered.upstream
        content = await asyncio.to_thread(lambda: encoded(ceiling_body(call, answered.prepared)))
        authorization = dict(call.headers).get(b"authorization")
        headers = upstream.authorized(request_headers(call.headers), authorization)
        headers.append((b"x-request-id", f"{call.request_id}-shadow".encode("ascii")))
        with anyio.fail_after(self._options.first_byte_s):
            response = await upstream.post(call.path, content, headers)
            try:
                answer = await response.aread()
            finally:
                await response.aclose()
        if response.status_code != 200:
            raise BackendError(f"the upstream answered with {response.status_code}")
        return await asyncio.to_thread(_read, answer)


def _read(content: bytes) -> ChatResponse:
    """A whole answer, or the events of one. Raises BackendError for anything else."""
    if content.lstrip()[:1] == b"{":
        return read_response(read_object(content))
    reader = ChunkReader()
    deltas: list[ChatDelta] = []
    for data in sse.EventParser().feed(content):
        if data == sse.DONE:
            break
        delta = reader.feed(read_object(data))
        if delta is not None:
            deltas.append(delta)
    if not reader.is_whole:
        raise BackendError("the stream ended before its answer was whole")
    return collect([*deltas, reader.last()])
