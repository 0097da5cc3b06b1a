"""Any compressor made safe on an agent's path: it never raises and never takes longer than its limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import get_args

from ..recording import NULL_RECORDER, Recorder
from ..tokens import TokenCounter
from .base import Compressor, ContentKind, Rendition
from .headtail import HeadTail

__all__ = ["GuardedCompressor"]

MAX_ABANDONED = 2  # calls still running after their time; while there are so many, no new one is started


class GuardedCompressor:
    """The inner compressor's renditions; head and tail marked `degraded` where it fails or is too slow.

    A thread cannot be stopped: one that hangs is left behind, and from the second on nothing waits for this
    compressor until one of them ends. No limit helps against one call into C that never lets the interpreter
    go (a regular expression of a compressor's own that explodes, say): it holds up all threads, this one's
    clock included, and only a process of its own could be ended. The compressors of this package make no such
    call on more than a part of a text. Each failure is recorded as a `compress` event, without contents.
    """

    def __init__(
        self, inner: Compressor, *, timeout_s: float | None, recorder: Recorder = NULL_RECORDER
    ) -> None:
        self._inner = inner
        self._configuration = inner.configuration
        self._timeout_s = timeout_s
        self._recorder = recorder
        self._fallback = HeadTail()
        self._lock = threading.Lock()
        self._num_abandoned = 0

    @property
    def configuration(self) -> str:
        return self._configuration

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """The inner compressor's rendition, or head and tail of the text marked `degraded`."""
        started_s = time.monotonic()
        outcome: list[Rendition | str] = []

        def work() -> None:
            try:
                made = self._inner.compress(text, query=query, target_tokens=target_tokens, counter=counter)
                outcome.append(made if _is_rendition(made, text) else "malformed rendition")
            except BaseException as error:  # a library may exit or panic; that must not end an agent's run
                outcome.append(type(error).__name__)  # the error's text may quote the content
                if isinstance(error, KeyboardInterrupt) and self._timeout_s is None:
                    raise  # in the caller's thread this is the user's

        if self._timeout_s is None:
            work()
        else:
            try:
                self._run_within(self._timeout_s, work)
            except RuntimeError:
                outcome.append("no thread to run in")
        made = outcome[0] if outcome else "timeout"
        if isinstance(made, Rendition):
            return made
        short = self._fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        self._recorder.record(
            "compress",
            compressor=self.configuration,
            reason=made,
            fallback=short.compressor,
            elapsed_s=time.monotonic() - started_s,
        )
        return Rendition(short.text, short.compressor, short.kind, degraded=True)

    def _run_within(self, timeout_s: float, work: Callable[[], None]) -> None:
        with self._lock:
            if self._num_abandoned >= MAX_ABANDONED:
                return
        done = threading.Event()
        abandoned = threading.Event()

        def run() -> None:
            work()
            with self._lock:
                done.set()
                if abandoned.is_set():
                    self._num_abandoned -= 1

        threading.Thread(target=run, name="asymspec-compress", daemon=True).start()
        if not done.wait(timeout_s):
            with self._lock:
                if not done.is_set():
                    abandoned.set()
                    self._num_abandoned += 1


def _is_rendition(made: object, text: str) -> bool:
    """Whether it is what the protocol says; nothing at all is no rendition of a text."""
    return (
        isinstance(made, Rendition)
        and all(isinstance(value, str) for value in (made.text, made.compressor))
        and made.kind in get_args(ContentKind)
        and isinstance(made.degraded, bool)
        and bool(made.text.strip() or not text.strip())
    )
