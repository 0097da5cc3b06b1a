"""Noticing that a client has left."""

from __future__ import annotations

from starlette.types import Receive

__all__ = ["left"]


async def left(receive: Receive) -> None:
    """Returns when the client is gone; its body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass
