"""Connections that many clients' calls share, each of which is used again only if nothing was left on it.

Bytes behind an answer would be read as the answer to the next call, which may be another client's. They may
wait in the HTTP parser, in TLS, or in the socket; a connection with any is closed.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx

__all__ = ["sent"]

# The parser is no public part of the response: this is where httpx 0.27 and 0.28 with httpcore 1 have it.
PARSER = ("_stream", "_httpcore_stream", "_stream", "_connection", "_h11_state")
LOOK_S = 1e-4  # enough to take what is there already; nothing is waited for


async def sent(client: httpx.AsyncClient, request: httpx.Request) -> httpx.Response:
    """The answer, its content unread, which must be closed. Raises httpx.HTTPError."""
    response = await client.send(request, stream=True)
    stream = response.stream
    if isinstance(stream, httpx.AsyncByteStream):
        response.stream = _Watched(stream, response.extensions.get("network_stream"))
    return response


class _Watched(httpx.AsyncByteStream):
    """An answer's content; with it closes a connection that has more to say."""

    def __init__(self, stream: httpx.AsyncByteStream, network: Any) -> None:
        self._stream = stream
        self._network = network
        self._is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield piece

    async def aclose(self) -> None:
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self._look()
        finally:
            await self._stream.aclose()

    async def _look(self) -> None:
        parser: Any = self._stream
        for name in PARSER:
            parser = getattr(parser, name, None)
        if self._network is None:
            return
        if parser is None:  # another httpcore: no connection is trusted
            await self._network.aclose()
            return
        if str(parser.our_state) != "DONE" or str(parser.their_state) != "DONE":
            return  # its answer was not read to the end, or it says that it closes
        is_clean = False
        try:
            is_clean = not parser.trailing_data[0] and not await self._has_more()
        finally:
            if not is_clean:
                parser.send_failed()  # the connection is closed then, not used again

    async def _has_more(self) -> bool:
        """Whether there is anything to read, be it the connection's end."""
        with anyio.move_on_after(LOOK_S):
            with contextlib.suppress(Exception):  # whatever its network backend raises: it is no use again
                await self._network.read(1)
            return True
        return False
