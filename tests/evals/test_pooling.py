"""Work done several pieces at a time: all of it, taken by one thread, and stopped without a wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.pooling import results


@given(num_tasks=st.integers(0, 30), num_parallel=st.integers(1, 5))
def test_every_result_comes_once_and_no_more_are_at_work_than_said(num_tasks: int, num_parallel: int) -> None:
    lock = threading.Lock()
    at_work = most = 0

    def task(number: int) -> int:
        nonlocal at_work, most
        with lock:
            at_work += 1
            most = max(most, at_work)
        with lock:
            at_work -= 1
        return number

    tasks: list[Callable[[], int]] = [lambda number=number: task(number) for number in range(num_tasks)]  # type: ignore[misc]
    assert sorted(results(tasks, num_parallel)) == list(range(num_tasks))
    assert most <= num_parallel


def test_tasks_are_at_work_at_once() -> None:
    meeting = threading.Barrier(3)
    assert sorted(results([lambda: meeting.wait(20)] * 3, 3)) == [0, 1, 2]


def test_one_at_a_time_is_in_the_thread_that_asks() -> None:
    assert list(results([threading.current_thread], 1)) == [threading.current_thread()]


@pytest.mark.parametrize("num_parallel", [1, 4])
def test_what_a_task_raises_is_raised_and_the_rest_is_dropped(num_parallel: int) -> None:
    begun: list[int] = []
    held = threading.Event()

    def fails() -> int:
        raise ValueError("so")

    def waits() -> int:
        begun.append(1)
        held.wait(20)
        return 1

    def tasks() -> Iterator[Callable[[], int]]:
        yield fails
        for _ in range(50):
            yield waits

    started_s = time.monotonic()
    try:
        with pytest.raises(ValueError, match="so"):
            list(results(tasks(), num_parallel))
        assert time.monotonic() - started_s < 15  # those at work were not waited for
        assert len(begun) < num_parallel + 1
    finally:
        held.set()
