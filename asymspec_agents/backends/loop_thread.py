"""One event loop in a thread of its own, for a client that callers of any kind share.

A connection pool belongs to one event loop. With this one, synchronous callers, several threads and several
`asyncio.run` one after another all use the same pool, and cancelling works the same for each.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from typing import Any, TypeVar

__all__ = ["LoopThread", "at_stop"]

_T = TypeVar("_T")
STOP_WAIT_S = 5.0

_here = threading.local()


class _Running:
    """A loop that runs in a thread until it is stopped, and what it must await first."""

    def __init__(self, stop_wait_s: float) -> None:
        self.pid, self.stop_wait_s = os.getpid(), stop_wait_s
        self.loop = asyncio.new_event_loop()
        self.at_stop: list[Callable[[], Awaitable[None]]] = []
        self.submitted: weakref.WeakSet[Coroutine[Any, Any, Any]] = weakref.WeakSet()
        self.thread = threading.Thread(target=self._run, name="asymspec-http", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        _here.running = self
        asyncio.set_event_loop(self.loop)
        try:
            self.loop.run_forever()
            self.loop.run_until_complete(self._end())
        finally:
            asyncio.set_event_loop(None)
            self.loop.close()

    async def _end(self) -> None:
        # What was submitted ends what it began; a task cancelled beside it, before its start, would not.
        await _cancelled(task for task in self._tasks() if task.get_coro() in self.submitted)
        await _cancelled(self._tasks())
        for close in self.at_stop:
            await close()
        await self.loop.shutdown_asyncgens()
        await self.loop.shutdown_default_executor()

    def _tasks(self) -> set[asyncio.Task[Any]]:
        return asyncio.all_tasks() - {asyncio.current_task()}

    def stop(self) -> None:
        if self.pid != os.getpid() or self.loop.is_closed():  # a fork has the object, but not the thread
            return
        self.loop.call_soon_threadsafe(self.loop.stop)
        if threading.current_thread() is not self.thread:
            self.thread.join(self.stop_wait_s)


async def _cancelled(tasks: Iterable[asyncio.Task[Any]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


class LoopThread:
    """Runs coroutines; the thread starts with the first one, and ends with `stop` or with this object.

    `stop_wait_s` bounds how long `stop` waits for what must end first.
    """

    def __init__(self, stop_wait_s: float = STOP_WAIT_S) -> None:
        self._stop_wait_s = stop_wait_s
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._running: _Running | None = None
        self._finalizer: weakref.finalize[[], LoopThread] | None = None

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """The coroutine's result to come; cancelling it cancels the coroutine, and so does `stop`."""
        with self._guard():  # no loop is stopped between being found and being given the coroutine
            if self._running is None or self._running.pid != os.getpid():
                self._running = running = _Running(self._stop_wait_s)
                self._finalizer = weakref.finalize(self, running.stop)
            self._running.submitted.add(coroutine)
            return asyncio.run_coroutine_threadsafe(coroutine, self._running.loop)

    def stop(self) -> None:
        """Cancels what runs and ends the thread; a later `submit` starts another."""
        with self._guard():
            finalizer = self._finalizer
            self._running = self._finalizer = None
        if finalizer is not None:  # outside the lock: what runs may take a moment to end
            finalizer()

    def _guard(self) -> threading.Lock:
        """The lock; a new one after a fork, as another thread may have held it then."""
        if self._pid != os.getpid():
            self._pid, self._lock = os.getpid(), threading.Lock()
        return self._lock


def at_stop(close: Callable[[], Awaitable[None]]) -> None:
    """Has `close` awaited when the loop that runs in this thread stops; called from a coroutine in it."""
    running: _Running = _here.running
    running.at_stop.append(close)
