"""One thread that runs a model for all callers: a queue, batches of like lengths, and a cache by content.

A chunk's probabilities depend on its ids alone, so they are kept under a hash of these, and callers who want
the same chunk at once share one computation. Chunks that no caller waits for any more leave the queue; what
is computed at that moment is finished and kept.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["Classifier", "Model"]

BUCKET_TOKENS = 64  # chunks in one batch differ by less than that in length

Ids = NDArray[np.int64]
Scores = NDArray[np.float32]


class Model(Protocol):
    """What the thread runs. Invariant: called from one thread at a time."""

    def probabilities(self, sequences: Sequence[Ids]) -> list[Scores]: ...


class _Job:
    __slots__ = ("error", "ids", "key", "num_waiting", "scores")

    def __init__(self, key: bytes, ids: Ids) -> None:
        self.key, self.ids, self.num_waiting = key, ids, 0
        self.scores: Scores | None = None
        self.error: BaseException | None = None

    @property
    def is_done(self) -> bool:
        return self.scores is not None or self.error is not None


class Classifier:
    """Thread-safe access to a model. Its thread starts with the first work and ends when there is none."""

    def __init__(self, model: Model, *, batch_size: int, max_cached: int) -> None:
        self._model, self._batch_size, self._max_cached = model, batch_size, max_cached
        self._changed = threading.Condition()
        self._queue: OrderedDict[bytes, _Job] = OrderedDict()  # not yet begun
        self._running: dict[bytes, _Job] = {}
        self._cache: OrderedDict[bytes, Scores] = OrderedDict()  # least recently used first
        self._thread: threading.Thread | None = None

    def scores(
        self,
        sequences: Sequence[Ids],
        *,
        timeout_s: float | None,
        on_progress: Callable[[int, int], None],
    ) -> list[Scores]:
        """Each sequence's probabilities; `on_progress(num_done, num_sequences)` is called as batches end.

        Raises TimeoutError after `timeout_s`, and what the model raised.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        jobs = self._enter(sequences)
        try:
            num_done = _num_done(jobs)
            while num_done < len(jobs):
                with self._changed:
                    remaining_s = None if deadline_s is None else max(deadline_s - time.monotonic(), 0)
                    if not self._changed.wait_for(partial(_has_news, jobs, num_done), remaining_s):
                        raise TimeoutError(f"{num_done} of {len(jobs)} chunks classified in {timeout_s} s")
                    num_done = _num_done(jobs)
                error = next((job.error for job in jobs if job.error), None)
                if error is not None:
                    raise error
                on_progress(num_done, len(jobs))
        finally:
            self._leave(jobs)
        return [job.scores for job in jobs if job.scores is not None]

    def _enter(self, sequences: Sequence[Ids]) -> list[_Job]:
        jobs = [_Job(hashlib.sha256(ids.tobytes()).digest(), ids) for ids in sequences]
        with self._changed:
            for index, job in enumerate(jobs):
                found = self._cache.get(job.key)
                if found is not None:
                    self._cache.move_to_end(job.key)
                    job.scores = found
                    continue
                known = self._running.get(job.key) or self._queue.setdefault(job.key, job)
                known.num_waiting += 1
                jobs[index] = known
            if self._queue and (self._thread is None or not self._thread.is_alive()):
                thread = threading.Thread(target=self._work, name="asymspec-llmlingua", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # no more threads
                    self._abandon(jobs)
                    raise
                self._thread = thread
        return jobs

    def _leave(self, jobs: list[_Job]) -> None:
        with self._changed:
            self._abandon(jobs)

    def _abandon(self, jobs: list[_Job]) -> None:
        for job in jobs:
            job.num_waiting -= 1
            if job.num_waiting <= 0 and self._queue.get(job.key) is job:
                del self._queue[job.key]

    def _work(self) -> None:
        while batch := self._next_batch():
            error: BaseException | None = None
            found: list[Scores] = []
            try:
                found = self._model.probabilities([job.ids for job in batch])
            except BaseException as raised:  # whatever it was, nobody may wait for ever
                error = raised
            with self._changed:
                for index, job in enumerate(batch):
                    del self._running[job.key]
                    job.error = error
                    if error is None:
                        job.scores = self._cache[job.key] = found[index]
                while len(self._cache) > self._max_cached:
                    self._cache.popitem(last=False)
                self._changed.notify_all()

    def _next_batch(self) -> list[_Job]:
        """The job that waits longest and others about as long as it is, now running; none ends the thread."""
        with self._changed:
            if not self._queue:
                self._thread = None
                return []
            bucket = len(next(iter(self._queue.values())).ids) // BUCKET_TOKENS
            alike = (job for job in self._queue.values() if len(job.ids) // BUCKET_TOKENS == bucket)
            batch = [job for job, _ in zip(alike, range(self._batch_size), strict=False)]
            for job in batch:
                self._running[job.key] = self._queue.pop(job.key)
            return batch


def _has_news(jobs: Sequence[_Job], num_done: int) -> bool:
    return _num_done(jobs) > num_done


def _num_done(jobs: Sequence[_Job]) -> int:
    return sum(job.is_done for job in jobs)
