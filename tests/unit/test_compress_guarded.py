"""A guarded compressor takes any failure, and stops waiting for one that hangs."""

from __future__ import annotations

import threading
import time

from asymspec_agents.compress.guarded import MAX_ABANDONED, GuardedCompressor
from asymspec_agents.compress.headtail import HeadTail
from tests.routing import Exploding, FirstChars, Hanging, QuarterCounter

TEXT = "some words of a text\n" * 100


def test_a_rendition_passes_through() -> None:
    inner = FirstChars()
    for timeout_s in (None, 10.0):
        guarded = GuardedCompressor(inner, timeout_s=timeout_s)
        options = {"query": "q", "target_tokens": 20, "counter": QuarterCounter()}
        assert guarded.compress(TEXT, **options) == inner.compress(TEXT, **options)
        assert guarded.configuration == inner.configuration


def test_a_failure_gives_what_head_tail_gives() -> None:
    for timeout_s in (None, 10.0):
        guarded = GuardedCompressor(Exploding(), timeout_s=timeout_s)
        options = {"query": "q", "target_tokens": 60, "counter": QuarterCounter()}
        made = guarded.compress(TEXT, **options)
        assert made.degraded
        assert made.text == HeadTail().compress(TEXT, **options).text


def test_work_that_ends_late_makes_room_again() -> None:
    inner = Hanging()
    guarded = GuardedCompressor(inner, timeout_s=0.02)
    options = {"query": "", "target_tokens": 60, "counter": QuarterCounter()}
    for _ in range(MAX_ABANDONED + 3):
        assert guarded.compress(TEXT, **options).degraded
    assert inner.num_calls == MAX_ABANDONED
    inner.release.set()
    deadline_s = time.monotonic() + 20
    while any(thread.name == "asymspec-compress" for thread in threading.enumerate()):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)
    assert not guarded.compress(TEXT, **options).degraded
