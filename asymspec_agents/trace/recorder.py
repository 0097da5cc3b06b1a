"""Recorders: events kept in memory, or passed on to several recorders; and what all recorders share."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

from ..errors import ConfigurationError
from ..recording import (
    Detail,
    Recorder,
    current_request,
    detail_of,
    headers_to_send,
    note_received,
)
from .events import Event, parse_event

__all__ = ["Level", "MemoryRecorder", "Once", "TeeRecorder", "detail_at", "stamped"]

Level = Literal["summary", "detail"]
"""How much is recorded of decoding; to record nothing, give no recorder."""


def detail_at(level: Level, num_alternatives: int) -> Detail | None:
    """What a recorder of that level wants of every position."""
    if level not in ("summary", "detail"):
        raise ConfigurationError(f'level={level!r} must be "summary" or "detail"')
    detail = Detail(num_alternatives)
    return detail if level == "detail" else None


def stamped(event: str, fields: Mapping[str, Any], now_s: float) -> dict[str, Any]:
    """The event's data, kind and time first; a given time stays, a field called event does not.

    An event that names no request belongs to the one that work is being done for, if there is one.
    """
    data = {"event": event, "timestamp_s": now_s} | dict(fields) | {"event": event}
    if "request_id" not in data and (request_id := current_request()) is not None:
        data["request_id"] = request_id
    return data


class Once:
    """Which texts of views were recorded: views name them by digest, so one copy is enough."""

    def __init__(self) -> None:
        self._digests: set[str] = set()

    def has(self, event: str, fields: Mapping[str, Any]) -> bool:
        """Whether the event is a text that was recorded before."""
        return event == "text" and fields.get("digest") in self._digests

    def add(self, event: str, fields: Mapping[str, Any]) -> None:
        """Remembers the event where it is a text."""
        if event == "text" and isinstance(fields.get("digest"), str):
            self._digests.add(fields["digest"])

    def clear(self) -> None:
        """Forgets all."""
        self._digests.clear()


class MemoryRecorder:
    """Keeps events in a list; `num_dropped` counts those that were not even an event.

    `level`, `num_alternatives` and `captures_content` are as in a JSONLRecorder.
    """

    def __init__(
        self,
        *,
        captures_content: bool = False,
        level: Level = "summary",
        num_alternatives: int = 5,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.captures_content = captures_content
        self.detail: Detail | None = detail_at(level, num_alternatives)
        self.num_dropped = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._once = Once()

    @property
    def events(self) -> tuple[Event, ...]:
        """What was recorded until now, in order."""
        with self._lock:
            return tuple(self._events)

    def clear(self) -> None:
        """Forgets every event."""
        with self._lock:
            self._events.clear()
            self._once.clear()

    def record(self, event: str, /, **fields: Any) -> None:
        """Keeps one event; stamped with the time unless `timestamp_s` is given."""
        try:
            parsed = parse_event(stamped(event, fields, self._clock()))
        except Exception:  # a recorder never raises into its caller
            with self._lock:
                self.num_dropped += 1
            return
        with self._lock:
            if not self._once.has(event, fields):
                self._events.append(parsed)
                self._once.add(event, fields)


class TeeRecorder:
    """Passes each event on to several recorders, with one timestamp.

    None gets what it did not ask for: contents are captured only if all of them capture contents, those aside
    that keep none whatever they are given (`keeps_no_content`), and positions go to those that want detail.
    """

    def __init__(self, *recorders: Recorder, clock: Callable[[], float] = time.time) -> None:
        self._recorders = recorders
        self._clock = clock

    @property
    def captures_content(self) -> bool:
        keeping = [r for r in self._recorders if not getattr(r, "keeps_no_content", False)]
        return bool(keeping) and all(recorder.captures_content for recorder in keeping)

    @property
    def detail(self) -> Detail | None:
        wanted = [detail for recorder in self._recorders if (detail := detail_of(recorder)) is not None]
        return max(wanted, key=lambda detail: detail.num_alternatives, default=None)

    def record(self, event: str, /, **fields: Any) -> None:
        """Passes one event on."""
        fields.setdefault("timestamp_s", self._clock())
        fewer = {name: value for name, value in fields.items() if name != "positions"}
        for recorder in self._recorders:
            recorder.record(event, **(fewer if detail_of(recorder) is None else fields))

    def received(self, request_id: str, headers: Mapping[str, str]) -> None:
        """Passes a request's headers on."""
        for recorder in self._recorders:
            note_received(recorder, request_id, headers)

    def to_send(self, request_id: str) -> Mapping[str, str]:
        """All headers that any of them wants sent."""
        return {
            n: v for recorder in self._recorders for n, v in headers_to_send(recorder, request_id).items()
        }
