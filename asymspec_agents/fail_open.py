"""Routing that never ends a run: where a router fails, the call goes on without it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

from .errors import ContextOverflowError
from .recording import Recorder

__all__ = ["FailOpen"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class FailOpen:
    """Lets a router's failures pass: each is recorded, and logged once per kind.

    A ContextOverflowError is no failure but the router's answer, and is raised: the full view is longer
    still.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._reported: set[str] = set()
        self._lock = threading.Lock()

    def guarded(self, work: Callable[[], _T]) -> _T | None:
        """What the work gives, or None where it failed."""
        try:
            return work()
        except ContextOverflowError:
            raise
        except Exception as error:
            self._report(error)
            return None

    async def aguarded(self, work: Awaitable[_T]) -> _T | None:
        """What the awaited work gives, or None where it failed; cancelling is no failure."""
        try:
            return await work
        except ContextOverflowError:
            raise
        except Exception as error:
            self._report(error)
            return None

    def _report(self, error: Exception) -> None:
        kind = type(error).__name__
        self._recorder.record("route_failed", error=kind)  # the message may quote contents
        with self._lock:
            is_new = kind not in self._reported
            self._reported.add(kind)
        if is_new:
            logger.warning(
                "routing failed with %s; the full context is sent as both views (logged once)",
                kind,
                exc_info=logger.isEnabledFor(logging.DEBUG),
            )
