"""One call of the Responses API as the gateway's Translation."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from ...errors import BackendError
from ...wire import sse
from ...wire.reading import read_object
from ..failing import upstream_failure
from .answer import response_of
from .request import chat_body
from .response import response_head
from .stream import EventWriter

__all__ = ["ResponsesTranslation"]


class ResponsesTranslation:
    """Raises ConfigurationError or MessageError for a body it refuses."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._body = chat_body(fields)
        self._head = response_head(fields)

    @property
    def chat_body(self) -> Mapping[str, Any]:
        """The chat completion to forward."""
        return self._body

    def answer(self, content: bytes) -> bytes:
        """The Response of a chat completion. Raises UpstreamError for what is none."""
        try:
            completion = read_object(content)
            if completion.get("error"):  # some servers answer 200 all the same
                (failed,) = EventWriter(self._head).fail(completion["error"])
                return _encoded(failed["response"])
            return _encoded(response_of(self._head, completion))
        except BackendError as error:
            raise upstream_failure(error) from error

    async def events(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The Response's events; a failure of the upstream ends them with `response.failed`."""
        writer, parser = EventWriter(self._head), sse.EventParser()
        yield _events(writer, writer.begin())
        async for chunk in chunks:
            written = _events(writer, _fed(writer, parser, chunk))
            if written or chunk.startswith(b":"):
                yield written or sse.COMMENT
        written = _events(writer, writer.end())
        if written:
            yield written


def _fed(writer: EventWriter, parser: sse.EventParser, chunk: bytes) -> Iterator[dict[str, Any]]:
    for data in parser.feed(chunk):
        if data.strip() != sse.DONE:
            yield from writer.feed(read_object(data))


def _events(writer: EventWriter, events: Iterator[dict[str, Any]]) -> bytes:
    """The events' bytes; what goes wrong on the way is the last event."""
    written: list[bytes] = []
    try:
        written.extend(_event(event) for event in events)
    except BackendError as error:
        written.extend(
            _event(event) for event in writer.fail(upstream_failure(error).failure.body()["error"])
        )
    return b"".join(written)


def _event(event: Mapping[str, Any]) -> bytes:
    kind: str = event["type"]
    return b"event: " + kind.encode() + b"\ndata: " + _encoded(event) + b"\n\n"


def _encoded(value: Any) -> bytes:
    """JSON in ASCII: lone surrogates, which models do write, have no UTF-8."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")
