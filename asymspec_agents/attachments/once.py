"""Results that are made once and then kept, and calls that are cut off when they take too long."""

from __future__ import annotations

import sys
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, Protocol, TypeVar

__all__ = ["CutOff", "EndedError", "Kept", "OverdueError"]

MAX_ABANDONED = 4  # calls still running after their time; while there are so many, no new one is started


class _HasText(Protocol):
    @property
    def text(self) -> str: ...


_V = TypeVar("_V", bound=_HasText)
_R = TypeVar("_R")


class Kept(Generic[_V]):
    """Values by key, each made once even if several threads ask; the least recently used go first.

    What a view showed must not change later, so failures are values like any other.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, _V] = OrderedDict()
        self._making: dict[Hashable, threading.Lock] = {}
        self._num_bytes = 0

    def get(self, key: Hashable, make: Callable[[], _V]) -> _V:
        """The key's value, made now if it is not there."""
        with self._lock:
            found = self._found(key)
            if found is not None:
                return found
            turn = self._making.setdefault(key, threading.Lock())
        with turn:
            with self._lock:
                found = self._found(key)
            if found is not None:
                return found
            try:
                made = make()
                with self._lock:
                    self._values[key] = made
                    self._num_bytes += sys.getsizeof(made.text)
                    while self._num_bytes > self._max_bytes and len(self._values) > 1:
                        _, dropped = self._values.popitem(last=False)
                        self._num_bytes -= sys.getsizeof(dropped.text)
            finally:
                with self._lock:
                    self._making.pop(key, None)
        return made

    def _found(self, key: Hashable) -> _V | None:
        found = self._values.get(key)
        if found is not None:
            self._values.move_to_end(key)
        return found


class OverdueError(Exception):
    """A call took longer than its time, or others before it still run."""


class EndedError(Exception):
    """A call wanted to end its thread or the program, which it has no right to."""


class CutOff:
    """Runs calls with a time limit. A thread cannot be stopped: a call that hangs is left behind."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._num_abandoned = 0

    def run(self, timeout_s: float, work: Callable[[], _R]) -> _R:
        """What `work` returns or raises. Raises OverdueError, and EndedError where `work` raises no Exception
        but, say, SystemExit, or what a library in Rust raises when it panics.
        """
        outcome: list[_R] = []
        errors: list[BaseException] = []
        done = threading.Event()
        is_abandoned = False

        def run() -> None:
            try:
                outcome.append(work())
            except BaseException as error:  # raised again by the caller
                errors.append(error)
            with self._lock:
                done.set()
                if is_abandoned:
                    self._num_abandoned -= 1

        with self._lock:
            if self._num_abandoned >= MAX_ABANDONED:
                raise OverdueError
        threading.Thread(target=run, name="asymspec-attachment", daemon=True).start()
        if not done.wait(timeout_s):
            with self._lock:
                if not done.is_set():
                    is_abandoned = True
                    self._num_abandoned += 1
                    raise OverdueError
        if errors:
            if isinstance(errors[0], Exception):
                raise errors[0]
            raise EndedError(type(errors[0]).__name__) from None
        return outcome[0]
