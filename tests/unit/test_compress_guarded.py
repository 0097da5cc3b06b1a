"""A guarded compressor takes any failure, and stops waiting for one that hangs."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from asymspec_agents.compress.base import Rendition
from asymspec_agents.compress.guarded import MAX_ABANDONED, GuardedCompressor
from asymspec_agents.compress.headtail import HeadTail
from asymspec_agents.tokens import TokenCounter
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


class Returning:
    """Gives, or raises, what it was made with."""

    configuration = "returning/1"

    def __init__(self, made: Any) -> None:
        self.made = made

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        if isinstance(self.made, BaseException):
            raise self.made
        return self.made


@pytest.mark.parametrize("timeout_s", [None, 86_400.0])  # a test that waits for it never ends
@pytest.mark.parametrize(
    "made",
    [
        SystemExit(3),
        GeneratorExit(),
        MemoryError(),
        asyncio.CancelledError(),
        None,
        "short",
        Rendition("", "x", "text"),
        Rendition(" \n", "x", "text"),
        Rendition(None, "x", "text"),  # type: ignore[arg-type]
        Rendition("short", None, "text"),  # type: ignore[arg-type]
        Rendition("short", "x", "bogus"),  # type: ignore[arg-type]
        Rendition("short", "x", "text", "yes"),  # type: ignore[arg-type]
    ],
)
def test_whatever_a_compressor_does_head_and_tail_take_its_place_at_once(
    made: Any, timeout_s: float | None
) -> None:
    guarded = GuardedCompressor(Returning(made), timeout_s=timeout_s)
    options = {"query": "q", "target_tokens": 60, "counter": QuarterCounter()}
    for _ in range(MAX_ABANDONED + 1):
        rendition = guarded.compress(TEXT, **options)
        assert rendition.degraded is True
        assert rendition.text == HeadTail().compress(TEXT, **options).text
    guarded._inner.made = Rendition("short", "x", "text")
    assert guarded.compress(TEXT, **options).text == "short"


def test_an_interrupt_by_the_user_ends_the_call() -> None:
    guarded = GuardedCompressor(Returning(KeyboardInterrupt()), timeout_s=None)
    with pytest.raises(KeyboardInterrupt):
        guarded.compress(TEXT, query="q", target_tokens=60, counter=QuarterCounter())
