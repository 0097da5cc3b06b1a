"""The small protocol through which every layer reports its decisions to `asymspec_agents.trace`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from .errors import ConfigurationError

__all__ = [
    "NULL_RECORDER",
    "Detail",
    "Propagates",
    "Recorder",
    "current_request",
    "detail_of",
    "for_request",
    "headers_to_send",
    "note_received",
]

MAX_ALTERNATIVES = 50


@dataclass(frozen=True, slots=True)
class Detail:
    """What is wanted of every decoded position: probabilities, and this many of each model's best tokens."""

    num_alternatives: int = 5

    def __post_init__(self) -> None:
        number = self.num_alternatives
        if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number <= MAX_ALTERNATIVES:
            raise ConfigurationError(
                f"num_alternatives={number!r} must be an integer from 0 to {MAX_ALTERNATIVES}"
            )


class Recorder(Protocol):
    """Takes one event per decision.

    Invariants: `record` is thread-safe, returns quickly and never raises into its caller. Fields are plain
    JSON values. Prompt and answer texts are passed only when `captures_content` is true. A recorder that
    wants every position's probabilities has a `detail` as well (see `detail_of`).
    """

    @property
    def captures_content(self) -> bool: ...

    def record(self, event: str, /, **fields: Any) -> None: ...


class _NullRecorder:
    captures_content = False

    def record(self, event: str, /, **fields: Any) -> None:
        pass


NULL_RECORDER: Recorder = _NullRecorder()
"""Records nothing: the level "off"."""


def detail_of(recorder: Recorder) -> Detail | None:
    """What the recorder wants of every position; None costs decoding nothing."""
    detail: Detail | None = getattr(recorder, "detail", None)
    return detail


@runtime_checkable
class Propagates(Protocol):
    """A recorder whose traces span processes: it reads and writes headers such as `traceparent`.

    Neither method raises into its caller.
    """

    def received(self, request_id: str, headers: Mapping[str, str]) -> None:
        """A server was sent this request; header names are in lower case."""

    def to_send(self, request_id: str) -> Mapping[str, str]:
        """The headers to send with this request, names in lower case."""


def note_received(recorder: Recorder, request_id: str, headers: Mapping[str, str]) -> None:
    """Tells the recorder of a request's headers, where it wants them."""
    if isinstance(recorder, Propagates):
        recorder.received(request_id, headers)


def headers_to_send(recorder: Recorder, request_id: str) -> Mapping[str, str]:
    """The headers that the recorder wants sent with a request; mostly none."""
    return recorder.to_send(request_id) if isinstance(recorder, Propagates) else {}


_request: ContextVar[str | None] = ContextVar("asymspec_request", default=None)


@contextmanager
def for_request(request_id: str) -> Iterator[None]:
    """Events recorded meanwhile, in this thread, task or what is awaited, belong to that request."""
    token = _request.set(request_id)
    try:
        yield
    finally:
        _request.reset(token)


def current_request() -> str | None:
    """The request that work is being done for, where that was said."""
    return _request.get()
