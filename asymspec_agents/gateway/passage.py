"""Requests on their way through the gateway: each begins and ends once, and all can be told to stop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

__all__ = ["Passage", "Passages"]

OnEnd = Callable[[str, int, float], None]


class Passage:
    """One request on its way; `stopped` is set when it must end."""

    def __init__(self, path: str, on_end: Callable[[Passage, int], None]) -> None:
        self.path = path
        self.started_s = time.monotonic()
        self.stopped = asyncio.Event()
        self._on_end = on_end
        self._is_ended = False

    def end(self, status: int) -> None:
        """The request has ended with this status; further calls do nothing."""
        if not self._is_ended:
            self._is_ended = True
            self._on_end(self, status)


class Passages:
    """All requests on their way. `on_end` is told the path, status and seconds of each that ends."""

    def __init__(self, on_end: OnEnd) -> None:
        self._on_end = on_end
        self._open: set[Passage] = set()

    @property
    def num_open(self) -> int:
        """Requests on their way now."""
        return len(self._open)

    def begin(self, path: str, leave: Callable[[], None]) -> Passage:
        """A request begins; `leave` is called at its end."""

        def end(passage: Passage, status: int) -> None:
            self._open.discard(passage)
            leave()
            self._on_end(passage.path, status, time.monotonic() - passage.started_s)

        passage = Passage(path, end)
        self._open.add(passage)
        return passage

    def stop_all(self) -> None:
        """Has every open request end now; its client is told."""
        for passage in list(self._open):
            passage.stopped.set()
