"""Reading a request's body: JSON only, never more than the limit."""

from __future__ import annotations

from collections.abc import AsyncIterator

from starlette.requests import ClientDisconnect, Request

from ..wire.failures import Failure
from .failing import RefusedError

__all__ = ["read_body"]

DRAIN_BYTES = 64 * 1024**2  # read and dropped of a body that is refused, so that the client hears why


async def read_body(request: Request, limit: int) -> bytes:
    """The body. Raises RefusedError for another content type or encoding, or more than `limit` bytes."""
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = request.headers.get("content-encoding", "identity").lower()
    pieces = _pieces(request)
    if content_type != "application/json" or encoding != "identity":
        await _drain(pieces)
        text = f"content-type {content_type!r}, content-encoding {encoding!r}: send plain application/json"
        raise RefusedError(Failure(415, "unsupported_media_type", text))
    kept: list[bytes] = []
    num_bytes = 0
    async for piece in pieces:
        num_bytes += len(piece)
        if num_bytes > limit:
            kept.clear()
            await _drain(pieces)
            raise RefusedError(_too_large(request.headers.get("content-length", ""), limit))
        kept.append(piece)
    return b"".join(kept)


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes, to its end and no further: waiting for more would be waiting for ever."""
    is_whole = False
    while not is_whole:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        is_whole = not message.get("more_body", False)
        yield message.get("body", b"")


async def _drain(pieces: AsyncIterator[bytes]) -> None:
    num_bytes = 0
    async for piece in pieces:
        num_bytes += len(piece)
        if num_bytes > DRAIN_BYTES:
            return


def _too_large(declared: str, limit: int) -> Failure:
    size = f"{int(declared):,} bytes" if declared.isdigit() else f"more than {limit:,} bytes"
    text = f"the body has {size}; the limit is {limit:,}: shorten the context"
    return Failure(413, "body_too_large", text)
