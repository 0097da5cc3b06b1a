"""A call as the gateway takes it from a client, and what comes back for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from .headers import RawHeaders

__all__ = ["Answer", "Call"]


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a client: `raw` is the body's bytes and `fields` the same, parsed.

    `tenant` stands for the client's key, None where no keys are asked for. `headers` are the client's, and
    `query` stands behind the `?` of its URL.
    """

    path: str
    raw: bytes = field(repr=False)
    fields: dict[str, Any] = field(repr=False)
    headers: RawHeaders = field(repr=False)
    request_id: str
    tenant: str | None = None
    query: str = ""

    @property
    def target(self) -> str:
        """Where it goes at its upstream."""
        return f"{self.path}?{self.query}" if self.query else self.path

    @property
    def model(self) -> str | None:
        """The model that is asked for, where it is a name at all."""
        model = self.fields.get("model")
        return model if isinstance(model, str) else None


@dataclass(slots=True)
class Answer:
    """Status, headers, and either the whole `content` or the `chunks` of an event stream.

    Each chunk is one or more whole events. An answer with chunks must be closed, read to its end or not:
    `close` ends the upstream's answer.
    """

    status: int
    headers: RawHeaders
    content: bytes = b""
    chunks: AsyncGenerator[bytes, None] | None = None
    close: Callable[[], Awaitable[None]] | None = None

    async def aclose(self) -> None:
        """Ends the upstream's answer; further calls do nothing."""
        if self.chunks is not None:
            await self.chunks.aclose()
        if self.close is not None:  # chunks that were never begun have closed nothing
            await self.close()
