"""Stops a run by signal between two records, never within one."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

__all__ = ["StopSignals"]


class StopSignals:
    """A context in which SIGINT and SIGTERM raise KeyboardInterrupt, but not inside `whole()`.

    Outside the main thread it changes nothing, as only that one may set handlers; a signal that the process
    was started to ignore stays ignored.
    """

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._depth = 0
        self._is_pending = False

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                handler = signal.getsignal(number)
                if handler is not None and handler is not signal.SIG_IGN:
                    self._before[number] = handler
                    signal.signal(number, self._stop)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """What happens in here happens whole; a signal takes effect at its end."""
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
        if self._is_pending and not self._depth:
            self._is_pending = False
            raise KeyboardInterrupt

    def _stop(self, number: int, frame: FrameType | None) -> None:
        if self._depth:
            self._is_pending = True
        else:
            raise KeyboardInterrupt
