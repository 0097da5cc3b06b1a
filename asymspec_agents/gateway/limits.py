"""How much one client may ask: requests at a time, and requests in any minute. Counted in this process."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable

from ..server.failing import RefusedError
from ..wire.failures import Failure

__all__ = ["ClientLimits"]

WINDOW_S = 60.0


class ClientLimits:
    """Lets requests in and out; a client is its key's hash, or None for everybody without one."""

    def __init__(
        self,
        max_in_flight: int | None,
        max_per_minute: int | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_in_flight = max_in_flight
        self._max_per_minute = max_per_minute
        self._clock = clock
        self._in_flight: dict[str | None, int] = {}
        self._started: dict[str | None, deque[float]] = {}

    @property
    def num_in_flight(self) -> int:
        """Requests of all clients that run now."""
        return sum(self._in_flight.values())

    def enter(self, client: str | None) -> None:
        """Takes a request in, which must `leave`. Raises RefusedError with what to wait for."""
        running = self._in_flight.get(client, 0)
        if self._max_in_flight is not None and running >= self._max_in_flight:
            raise _refusal(f"{running} requests of this client are running already", 1)
        if self._max_per_minute is not None:
            now = self._clock()
            started = self._started.setdefault(client, deque())
            while started and started[0] <= now - WINDOW_S:
                started.popleft()
            if len(started) >= self._max_per_minute:
                wait_s = math.ceil(started[0] + WINDOW_S - now)
                raise _refusal(f"{len(started)} requests of this client began in the last minute", wait_s)
            started.append(now)
        self._in_flight[client] = running + 1

    def leave(self, client: str | None) -> None:
        """Lets a request out."""
        running = self._in_flight.get(client, 0) - 1
        if running > 0:
            self._in_flight[client] = running
        else:
            self._in_flight.pop(client, None)


def _refusal(reason: str, wait_s: int) -> RefusedError:
    text = f"{reason}; try again in {wait_s} s"
    return RefusedError(Failure(429, "rate_limit_exceeded", text, headers={"retry-after": str(wait_s)}))
