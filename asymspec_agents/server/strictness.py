"""HTTP read strictly: h11, whatever else is installed, and no request that tells its length twice.

h11 makes one of several equal lengths before any application sees them; a proxy in front may not.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

__all__ = ["strict_protocol"]

MAX_HEAD_BYTES = 64 * 1024
_HEAD_END = re.compile(rb"\r?\n\r?\n")
_LENGTH = re.compile(rb"\n[ \t]*content-length[ \t]*:([^\r\n]*)", re.IGNORECASE)


def strict_protocol() -> type[asyncio.Protocol]:
    """The protocol class for uvicorn's `http` setting; what it refuses gets a 400."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class StrictConnection(h11.Connection):
        def next_event(self) -> Any:
            if self.their_state is h11.IDLE:
                head = bytes(self.trailing_data[0])
                end = _HEAD_END.search(head)
                lengths = _LENGTH.findall(head[: end.start()]) if end is not None else []
                if len(lengths) > 1 or any(b"," in length for length in lengths):
                    raise h11.RemoteProtocolError("more than one content-length", error_status_hint=400)
            return super().next_event()

    class StrictProtocol(H11Protocol):
        def __init__(self, config: Any, *arguments: Any, **options: Any) -> None:
            super().__init__(config, *arguments, **options)
            self.conn = StrictConnection(h11.SERVER, MAX_HEAD_BYTES)

    return StrictProtocol
