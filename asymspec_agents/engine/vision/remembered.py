"""Values by key, the least recently used dropped first beyond a number of bytes."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Remembered"]

_T = TypeVar("_T")


class Remembered(Generic[_T]):
    """A cache of at most `max_bytes`; thread-safe. A value that alone is larger is not kept."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.num_bytes = 0
        self._entries: OrderedDict[Hashable, tuple[_T, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable) -> _T | None:
        """The value, now the most recently used one; None where there is none."""
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key][0]

    def put(self, key: Hashable, value: _T, num_bytes: int) -> None:
        """Keeps the value as the most recently used one."""
        with self._lock:
            self._drop(key)
            if num_bytes > self.max_bytes:
                return
            self._entries[key] = (value, num_bytes)
            self.num_bytes += num_bytes
            while self.num_bytes > self.max_bytes:
                self._drop(next(iter(self._entries)))

    def take(self, key: Hashable) -> _T | None:
        """The value, which is then forgotten; None where there is none."""
        with self._lock:
            return self._drop(key)

    def _drop(self, key: Hashable) -> _T | None:
        value, num_bytes = self._entries.pop(key, (None, 0))
        self.num_bytes -= num_bytes
        return value
