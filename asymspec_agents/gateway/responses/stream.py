"""A chat stream as the events of a Response, as they come.

Each kind of output is an item with a life of its own: added, filled by deltas, done. A message or a thought
is done when something else begins; calls, which may come in pieces side by side, when the answer ends.
Source: OpenAI API reference, streaming events of the Responses API.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...errors import BackendError
from ...wire.reading import CallParts, CallPieces, choice_of, reasoning_of
from .answer import text_of
from .open_items import OpenCall, OpenItem, OpenMessage, OpenReasoning
from .response import ItemStatus, ending_of, usage_of

__all__ = ["EventWriter"]

CODES = ("rate_limit_exceeded", "invalid_prompt", "server_error")


class EventWriter:
    """Makes events of chunks; each event is complete but for the number that `numbered` gives it."""

    def __init__(self, head: Mapping[str, Any]) -> None:
        self._response = dict(head)
        self._items: list[OpenItem] = []
        self._open: OpenItem | None = None  # the message or thought that the next delta may continue
        self._pieces = CallPieces()
        self._calls: dict[int, OpenCall] = {}
        self._finish_reason: object = None
        self._number = 0
        self.is_over = False

    def begin(self) -> Iterator[dict[str, Any]]:
        """The events before anything of the answer is known."""
        yield self._event("response.created", response=self._snapshot())
        yield self._event("response.in_progress", response=self._snapshot())

    def feed(self, chunk: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """The events of one chunk. Raises BackendError for one that is none."""
        if self.is_over:
            return
        error = chunk.get("error")
        if error:
            yield from self.fail(error)
            return
        self._note(chunk)
        choice = choice_of(chunk)
        if choice is None:
            return
        delta = choice.get("delta")
        if isinstance(delta, Mapping):
            yield from self._delta(delta)
        self._finish_reason = choice.get("finish_reason") or self._finish_reason

    def end(self) -> Iterator[dict[str, Any]]:
        """The events after the last chunk. Raises BackendError for an answer that is not whole."""
        if self.is_over:
            return
        if self._finish_reason is None:
            raise BackendError("the upstream's stream ended before its answer was whole")
        for parts in self._pieces.calls:
            parts.whole()
        ending = ending_of(self._finish_reason)
        status: ItemStatus = "completed" if ending["status"] == "completed" else "incomplete"
        if not self._items:
            yield from self._switch(OpenMessage, "text")
        yield from self._close(status)
        for call in self._calls.values():
            yield from self._numbered(call.close(status))
        self._response.update(ending)
        yield from self._over(f"response.{ending['status']}")

    def fail(self, error: object) -> Iterator[dict[str, Any]]:
        """The end of an answer that failed; what was there of it stays, as incomplete."""
        if self.is_over:
            return
        details = error if isinstance(error, Mapping) else {"message": error}
        code = details.get("code")
        message = details.get("message")
        for item in self._items:
            item.status = "incomplete" if item.status == "in_progress" else item.status
        self._response["status"] = "failed"
        self._response["error"] = {
            "code": code if code in CODES else "server_error",
            "message": message if isinstance(message, str) else "the upstream failed",
        }
        yield from self._over("response.failed")

    def _note(self, chunk: Mapping[str, Any]) -> None:
        model = chunk.get("model")
        if isinstance(model, str) and model:
            self._response["model"] = model
        self._response["usage"] = usage_of(chunk.get("usage")) or self._response["usage"]
        if "asymspec" in chunk:
            self._response["asymspec"] = chunk["asymspec"]

    def _delta(self, delta: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        if reasoning := reasoning_of(delta):
            yield from self._switch(OpenReasoning, "text")
            yield from self._grow(reasoning)
        if text := text_of(delta):
            yield from self._switch(OpenMessage, "text")
            yield from self._grow(text)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            yield from self._switch(OpenMessage, "refusal")
            yield from self._grow(refusal)
        self._pieces.add(delta)
        for number, parts in enumerate(self._pieces.calls):
            yield from self._call(number, parts)

    def _call(self, number: int, parts: CallParts) -> Iterator[dict[str, Any]]:
        call = self._calls.get(number)
        if call is None:
            if not parts.name:  # it has no item before it has a name
                return
            yield from self._close("completed")
            call = OpenCall(len(self._items), parts)
            self._calls[number] = call
            self._items.append(call)
            yield from self._numbered(call.open())
        yield from self._numbered(call.grow())

    def _switch(self, kind: type[OpenMessage] | type[OpenReasoning], part: str) -> Iterator[dict[str, Any]]:
        """Makes an item of this kind the open one, with an open part of this kind."""
        if isinstance(self._open, kind) and self._open.part == part:
            return
        yield from self._close("completed")
        self._open = kind(len(self._items), part)
        self._items.append(self._open)
        yield from self._numbered(self._open.open())

    def _grow(self, text: str) -> Iterator[dict[str, Any]]:
        if isinstance(self._open, OpenMessage | OpenReasoning):
            yield from self._numbered(self._open.grow(text))

    def _close(self, status: ItemStatus) -> Iterator[dict[str, Any]]:
        if self._open is not None:
            yield from self._numbered(self._open.close(status))
            self._open = None

    def _over(self, kind: str) -> Iterator[dict[str, Any]]:
        self.is_over = True
        self._response["output"] = [item.wire() for item in self._items]
        yield self._event(kind, response=self._snapshot())

    def _numbered(self, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        for event in events:
            yield self._event(event.pop("type"), **event)

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        event = {"type": kind, "sequence_number": self._number, **fields}
        self._number += 1
        return event

    def _snapshot(self) -> dict[str, Any]:
        return dict(self._response)
