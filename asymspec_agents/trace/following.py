"""Calls while their trace is being written."""

from __future__ import annotations

from collections.abc import Iterable

from .events import ErrorEvent, Event, ResponseEvent, TextEvent
from .metrics import measure
from .story import Call

__all__ = ["LiveCalls"]


class LiveCalls:
    """Takes events as they come; `open` are the calls that have begun to be decoded and have no end yet."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._num_calls = 0

    @property
    def open(self) -> tuple[Call, ...]:
        return tuple(call for call in self._calls.values() if call.blocks or call.request is not None)

    def take(self, events: Iterable[Event]) -> list[Call]:
        """The calls that ended with these events."""
        ended: list[Call] = []
        for event in events:
            if event.request_id is None or isinstance(event, TextEvent):
                continue
            if event.request_id not in self._calls:
                self._num_calls += 1
                self._calls[event.request_id] = Call(self._num_calls, event.request_id)
            call = self._calls[event.request_id]
            call.add(event)
            call.metrics += measure([event])
            if isinstance(event, ResponseEvent | ErrorEvent):
                ended.append(self._calls.pop(event.request_id))
        return ended
