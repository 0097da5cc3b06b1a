"""Where summaries are kept: any mutable mapping of strings, in memory and bounded unless one is given."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping

__all__ = ["SummaryCache"]

MAX_CHARS = 20_000_000


class SummaryCache(MutableMapping[str, str]):
    """Summaries in memory, thread-safe; over `max_chars` the least recently used go first."""

    def __init__(self, max_chars: int = MAX_CHARS) -> None:
        self._max_chars = max_chars
        self._lock = threading.RLock()
        self._texts: OrderedDict[str, str] = OrderedDict()
        self._num_chars = 0

    def __getitem__(self, key: str) -> str:
        with self._lock:
            self._texts.move_to_end(key)
            return self._texts[key]

    def __setitem__(self, key: str, text: str) -> None:
        with self._lock:
            self._num_chars += len(text) - len(self._texts.pop(key, ""))
            self._texts[key] = text
            while self._num_chars > self._max_chars:
                _, dropped = self._texts.popitem(last=False)
                self._num_chars -= len(dropped)

    def __delitem__(self, key: str) -> None:
        with self._lock:
            self._num_chars -= len(self._texts.pop(key))

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(tuple(self._texts))

    def __len__(self) -> int:
        return len(self._texts)

    def setdefault(self, key: str, default: str = "") -> str:
        """The text stored first under the key: of two that were made at once both callers get the same."""
        with self._lock:
            return super().setdefault(key, default)
