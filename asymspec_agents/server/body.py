"""Reading a request's body: JSON only, never more than the limit, and never waiting for ever."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NoReturn

from starlette.requests import ClientDisconnect, Request

from ..wire.failures import Failure
from .failing import RefusedError

__all__ = ["read_body"]

DRAIN_BYTES = 64 * 1024**2  # read and dropped of a body that is refused, so that the client hears why
DRAIN_S = 5.0  # as long at most, as nobody needs that body
STALL_S = 60.0  # without a single byte of a body that is wanted
CLOSING = {"connection": "close"}  # what is left of a body would be read as the next request


async def read_body(request: Request, limit: int) -> bytes:
    """The body. Raises RefusedError for another content type or encoding, more than `limit` bytes, or a
    body that stops coming.
    """
    content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    encoding = request.headers.get("content-encoding", "identity").lower()
    pieces = _pieces(request)
    if content_type != "application/json" or encoding != "identity":
        text = f"content-type {content_type!r}, content-encoding {encoding!r}: send plain application/json"
        await _refuse(pieces, 415, "unsupported_media_type", text)
    declared = request.headers.get("content-length", "")
    size = int(declared) if declared.isdecimal() else None
    shown = f"more than {limit:,}" if size is None else f"{size:,}"
    too_large = f"the body has {shown} bytes; the limit is {limit:,}: shorten the context"
    if size is not None and size > limit:
        await _refuse(pieces, 413, "body_too_large", too_large)
    kept: list[bytes] = []
    num_bytes = 0
    async for piece in pieces:
        num_bytes += len(piece)
        if num_bytes > limit:
            kept.clear()
            await _refuse(pieces, 413, "body_too_large", too_large)
        kept.append(piece)
    return b"".join(kept)


async def _pieces(request: Request) -> AsyncIterator[bytes]:
    """The body as it comes, to its end and no further: waiting for more would be waiting for ever."""
    is_whole = False
    num_bytes = 0
    while not is_whole:
        try:
            message = await asyncio.wait_for(request.receive(), STALL_S)
        except asyncio.TimeoutError as error:
            text = f"nothing of the body came for {STALL_S:g} s, after {num_bytes:,} bytes; send it again"
            raise RefusedError(Failure(408, "request_timeout", text, headers=CLOSING)) from error
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        is_whole = not message.get("more_body", False)
        piece = message.get("body", b"")
        num_bytes += len(piece)
        yield piece


async def _refuse(pieces: AsyncIterator[bytes], status: int, code: str, text: str) -> NoReturn:
    """Raises the refusal once the client, which may still be sending, can hear it."""
    try:
        is_whole = await asyncio.wait_for(_drain(pieces), DRAIN_S)
    except asyncio.TimeoutError:
        is_whole = False
    raise RefusedError(Failure(status, code, text, headers={} if is_whole else CLOSING))


async def _drain(pieces: AsyncIterator[bytes]) -> bool:
    """Whether the body came to its end."""
    num_bytes = 0
    async for piece in pieces:
        num_bytes += len(piece)
        if num_bytes > DRAIN_BYTES:
            return False
    return True
