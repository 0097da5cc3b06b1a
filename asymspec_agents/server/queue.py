"""The one place where a server's requests meet the engine: a bounded queue and one thread that decodes.

Invariants: requests are decoded in the order they came; one that is given up while it waits frees its place
at once; whatever ends a request, its stream is closed in the thread that ran it.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

from ..backends.answer import ChatDelta
from ..errors import BackendError, RequestAbortedError

__all__ = ["Answer", "DecodeQueue", "NoStepYetError", "Place", "QueueFullError"]

FIRST_GUESS_S = 5.0  # how long a request takes, before any was seen
STOP_WAIT_S = 10.0


class QueueFullError(Exception):
    """No place is free; `retry_after_s` guesses when one may be."""

    def __init__(self, num_waiting: int, retry_after_s: int) -> None:
        super().__init__(f"{num_waiting} requests are waiting already; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class NoStepYetError(Exception):
    """The answer goes on, but nothing of it came in the time that its reader waits."""


class Place:
    """A request's place in the queue, from before it is prepared until it is decoded."""

    def __init__(self, leave: Callable[[Place], None]) -> None:
        self.abort = threading.Event()
        self._leave = leave
        self._lock = threading.Lock()
        self._is_started = False
        self._is_free = False

    def start(self) -> bool:
        """Whether the request is still wanted; from now on its place is held until it is done."""
        with self._lock:
            self._is_started = not self.abort.is_set()
            return self._is_started

    def give_up(self) -> None:
        """Ends the request: before its start at once, after it at the engine's next chance."""
        with self._lock:
            self.abort.set()
            if self._is_started:
                return
        self.free()

    def free(self) -> None:
        """Gives the place to others; further calls do nothing."""
        with self._lock:
            if self._is_free:
                return
            self._is_free = True
        self._leave(self)


class Answer:
    """The steps of a submitted request, as they are decoded."""

    def __init__(self, place: Place, deltas: Iterator[ChatDelta]) -> None:
        self.place = place
        self.deltas = deltas
        self._loop = asyncio.get_running_loop()
        self._steps: asyncio.Queue[ChatDelta | BaseException | None] = asyncio.Queue()

    async def next(self, timeout_s: float | None = None) -> ChatDelta | None:
        """The next step, None after the last. Raises what ended the request; NoStepYetError: none came."""
        try:
            step = await asyncio.wait_for(self._steps.get(), timeout_s)
        except asyncio.TimeoutError:
            raise NoStepYetError from None
        if isinstance(step, BaseException):
            raise step
        return step

    def put(self, step: ChatDelta | BaseException | None) -> None:
        """Called by the decoding thread."""
        try:
            self._loop.call_soon_threadsafe(self._steps.put_nowait, step)
        except RuntimeError:  # the loop is closed: nobody reads the answer
            self.place.abort.set()


class DecodeQueue:
    """Decodes one request at a time, with at most `max_waiting` others waiting."""

    def __init__(self, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._changed = threading.Condition()
        self._places: set[Place] = set()
        self._waiting: deque[Answer] = deque()
        self._thread: threading.Thread | None = None
        self._mean_s = FIRST_GUESS_S

    def start(self) -> None:
        """Begins decoding."""
        with self._changed:
            self._thread = threading.Thread(target=self._work, name="asymspec-decode", daemon=True)
            self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether requests are decoded."""
        thread = self._thread
        return thread is not None and thread.is_alive()

    @property
    def num_requests(self) -> int:
        """Requests that wait or are being decoded."""
        with self._changed:
            return len(self._places)

    def give_up_all(self) -> None:
        """Ends every request, the one being decoded at the engine's next chance."""
        with self._changed:
            places = list(self._places)
        for place in places:
            place.give_up()

    def stop(self) -> None:
        """Gives up every request and ends the thread."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        self.give_up_all()
        if thread is not None:
            thread.join(STOP_WAIT_S)

    def reserve(self) -> Place:
        """A place for a request yet to be prepared; raises QueueFullError where none is free."""
        with self._changed:
            if len(self._places) > self._max_waiting:
                retry_after_s = min(60, max(1, math.ceil(self._mean_s)))
                raise QueueFullError(len(self._places) - 1, retry_after_s)
            place = Place(self._leave)
            self._places.add(place)
            return place

    def submit(self, place: Place, deltas: Iterator[ChatDelta]) -> Answer:
        """Lines the prepared request up; whoever reads the answer must give its place up at the end."""
        answer = Answer(place, deltas)
        with self._changed:
            is_given_up = place not in self._places
            if not is_given_up:
                self._waiting.append(answer)
                self._changed.notify_all()
        if is_given_up:
            answer.put(_given_up())
        return answer

    def _leave(self, place: Place) -> None:
        """Forgets a place, and the request that waited there with all it holds."""
        with self._changed:
            self._places.discard(place)
            left = [answer for answer in self._waiting if answer.place is place]
            for answer in left:
                self._waiting.remove(answer)
        for answer in left:
            answer.put(_given_up())

    def _next(self) -> Answer | None:
        with self._changed:
            while self._thread is threading.current_thread():
                if self._waiting:
                    return self._waiting.popleft()
                self._changed.wait()
            return None

    def _work(self) -> None:
        while (answer := self._next()) is not None:
            if not answer.place.start():
                answer.put(_given_up())
                continue
            started = time.monotonic()
            self._decode(answer)
            self._mean_s = 0.7 * self._mean_s + 0.3 * (time.monotonic() - started)

    def _decode(self, answer: Answer) -> None:
        end: BaseException | None = None
        try:
            for delta in answer.deltas:
                answer.put(delta)
                if answer.place.abort.is_set():
                    end = _given_up()
                    break
        except Exception as error:
            end = error
        except BaseException as error:  # must end neither this thread nor the loop that the answer is read in
            end = BackendError(f"the engine was ended by {type(error).__name__}")
        try:
            close = getattr(answer.deltas, "close", None)
            if close is not None:
                close()
        except Exception as error:
            end = end or error
        answer.place.free()
        answer.put(end)


def _given_up() -> RequestAbortedError:
    return RequestAbortedError("the request was given up: its client left, or the server is stopping")
