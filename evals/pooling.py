"""Work done several pieces at a time, its results taken by one thread in the order in which they come."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TypeVar

__all__ = ["results"]

R = TypeVar("R")


def results(tasks: Iterable[Callable[[], R]], num_parallel: int) -> Generator[R, None, None]:
    """Each task's result as it comes; what a task raises is raised. One at a time: in this thread.

    No more than `num_parallel` tasks are taken ahead of what was yielded. Where whoever takes the results
    stops, those that wait are dropped and those at work are left to end by themselves.
    """
    if num_parallel == 1:
        for task in tasks:
            yield task()
        return
    pool = ThreadPoolExecutor(num_parallel, thread_name_prefix="evals")
    running: set[Future[R]] = set()
    try:
        for task in tasks:
            running.add(pool.submit(task))
            while len(running) >= num_parallel:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
