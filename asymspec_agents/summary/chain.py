"""The summaries of a growing conversation: each is made of the one before and what happened since.

A summary is cached under what it was made of, so a conversation that was seen before costs no call. One that
failed is head and tail of the same text, marked degraded, and stays so in this process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence

from ..compress.base import Rendition
from ..compress.guarded import GuardedCompressor
from ..messages import Message
from ..recording import Recorder
from ..store import ContentStore, content_hash
from ..tokens import TokenCounter
from .compressor import SummaryCompressor
from .history import Cut, transcript

__all__ = ["SummaryChain"]

MAX_KEPT = 1_000  # conversations' summaries whose failures are remembered
GUARD_SLACK_S = 5.0  # the compressor ends itself first, and its calls with it


class SummaryChain:
    """Makes and remembers the summaries of conversations; thread-safe, never raises."""

    def __init__(
        self,
        compressor: SummaryCompressor,
        counter: TokenCounter,
        store: ContentStore,
        recorder: Recorder,
        *,
        max_tokens: int,
    ) -> None:
        limit = None if compressor.timeout_s is None else compressor.timeout_s + GUARD_SLACK_S
        self._guarded = GuardedCompressor(compressor, timeout_s=limit, recorder=recorder)
        self._counter = counter
        self._store = store
        self._recorder = recorder
        self._max_tokens = max_tokens
        self._lock = threading.Lock()
        self._made: OrderedDict[str, Rendition] = OrderedDict()

    def summary(self, messages: Sequence[Message], cuts: Sequence[Cut], query: str) -> Rendition:
        """The summary of the messages up to the last cut; `degraded` if one on the way to it failed."""
        text, start, degraded = "", 0, False
        for cut in cuts:
            since = transcript(messages[start : cut.end])
            source = since
            if text:
                source = f"Summary of what came before:\n{text}\n\nWhat happened since:\n{since}"
            made = self._rendition(source, query)
            self._keep(source)
            text, start, degraded = made.text, cut.end, degraded or made.degraded
        return Rendition(text, "summary", "text", degraded)

    def _keep(self, source: str) -> None:
        """Stores what a summary was made of, which its reference names; the one before is named in it."""
        try:
            self._store.put(source)
        except Exception as error:  # a full disk costs the reference, not the call
            self._recorder.record("store_failed", error=type(error).__name__)

    def _rendition(self, source: str, query: str) -> Rendition:
        key = content_hash(f"{content_hash(query)}{content_hash(source)}")
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
                return found
        made = self._guarded.compress(
            source, query=query, target_tokens=self._max_tokens, counter=self._counter
        )
        with self._lock:
            found = self._made.setdefault(key, made)
            if len(self._made) > MAX_KEPT:
                self._made.popitem(last=False)
        return found
