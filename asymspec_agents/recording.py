"""The small protocol through which every layer reports its decisions to `asymspec_agents.trace`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from .errors import ConfigurationError

__all__ = ["NULL_RECORDER", "Detail", "Recorder", "current_request", "detail_of", "for_request"]

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
