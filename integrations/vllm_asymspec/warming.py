"""The queue of requests whose views the drafter has still to read, and how they share a step's budget."""

from __future__ import annotations

import bisect
import itertools
import time
from collections.abc import Sequence
from typing import Any

__all__ = ["WarmingQueue", "shares"]

MIN_TOKENS = 64  # less is not worth a row of its own

Age = tuple[int, int]


class WarmingQueue:
    """Requests by age: the order in which they came, for a scheduler by priority within one priority."""

    def __init__(self, *, by_priority: bool) -> None:
        self._by_priority = by_priority
        self._counter = itertools.count()
        self._ages: dict[str, Age] = {}
        self._queue: list[tuple[Age, str]] = []
        self._requests: dict[str, Any] = {}
        self._since: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._queue)

    def __contains__(self, request: Any) -> bool:
        return request.request_id in self._requests

    def register(self, request: Any) -> None:
        """A request comes; its age is settled for as long as it lives."""
        priority = request.priority if self._by_priority else 0
        self._ages[request.request_id] = priority, next(self._counter)

    def forget(self, req_id: str) -> None:
        """The request is over."""
        request = self._requests.get(req_id)
        if request is not None:
            self.remove(request)
        del self._ages[req_id]

    def age(self, request: Any) -> Age:
        """Sorts requests, the oldest first."""
        return self._ages[request.request_id]

    def add(self, request: Any) -> None:
        """Queues a registered request, unless it is queued."""
        if request not in self:
            bisect.insort(self._queue, (self.age(request), request.request_id))
            self._requests[request.request_id] = request
            self._since[request.request_id] = time.monotonic()

    def remove(self, request: Any) -> float:
        """Takes a request out; returns the seconds it was in."""
        req_id = request.request_id
        del self._queue[bisect.bisect_left(self._queue, (self.age(request), req_id))]
        del self._requests[req_id]
        return time.monotonic() - self._since.pop(req_id)

    def requests(self) -> list[Any]:
        """All of them, the oldest first."""
        return [self._requests[req_id] for _, req_id in self._queue]


def shares(wanted: Sequence[int], budget: int) -> list[int]:
    """How much of the budget each gets of what it wants, the first being the oldest.

    The oldest gets three quarters of what is left, the rest the others, in the same way: a short view isn't
    kept waiting by a long one before it. What nobody else wants is the oldest's again.
    """
    given = []
    left = budget
    for want in wanted:
        share = min(want, max(left * 3 // 4, min(left, MIN_TOKENS)))
        given.append(share)
        left -= share
    for index, want in enumerate(wanted):
        more = min(want - given[index], left)
        given[index] += more
        left -= more
    return given
