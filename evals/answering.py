"""Who answers the requests of an arm, and the engine's events of each request."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from asymspec_agents.backends import Backend, ChatRequest
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.trace import Event, MemoryRecorder

__all__ = ["Answering", "EventLog", "PromptLength"]

PromptLength = Callable[[Sequence[Message], Sequence[ToolSpec]], "int | None"]
"""A prompt's tokens for the verifier, chat template included; None where nobody can tell."""


class EventLog:
    """A recorder that keeps the events of watched requests apart, until they are taken."""

    captures_content = False

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: dict[str, MemoryRecorder] = {}

    def watch(self, request_id: str) -> None:
        """Begins to keep a request's events."""
        with self._lock:
            self._watched[request_id] = MemoryRecorder()

    def record(self, event: str, /, **fields: Any) -> None:
        """Keeps the event where its request is watched."""
        with self._lock:
            kept = self._watched.get(str(fields.get("request_id")))
        if kept is not None:
            kept.record(event, **fields)

    def take(self, request_id: str) -> tuple[Event, ...]:
        """The request's events, which are then forgotten."""
        with self._lock:
            kept = self._watched.pop(request_id, None)
        return () if kept is None else kept.events


@dataclass(frozen=True, slots=True, kw_only=True)
class Answering:
    """How a system answers one arm.

    `put` turns a request with both views into the one that `backend` gets. `mode` is what ran where no report
    says more. `only_model` is the model that reads everything, where it is not the verifier. `salts`: the
    backend isolates caches by the request's salt. `streams`: whole answers are asked for as streams, which
    tell the time to the first token. `events` are the engine's, where there is one.
    """

    backend: Backend
    put: Callable[[ChatRequest], ChatRequest]
    mode: str | None = None
    only_model: str | None = None
    salts: bool = True
    streams: bool = True
    events: EventLog | None = None
