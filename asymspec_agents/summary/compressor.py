"""SummaryCompressor: a text's summary, written by a model behind any chat backend.

A text longer than one prompt is summarized in chunks, and the chunks' summaries again, until one is left.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import Any

from ..backends.base import Backend
from ..compress.base import Rendition
from ..compress.cuts import longest_fit, snap_back
from ..compress.headtail import HeadTail
from ..errors import ConfigurationError
from ..recording import NULL_RECORDER, Recorder
from ..store import content_hash, short_reference
from ..tokens import TokenCounter
from .cache import SummaryCache
from .calls import SummaryCalls, first_tokens
from .prompts import VERSION, summary_messages

__all__ = ["SummaryCompressor"]

MIN_SUMMARY_TOKENS = 24  # a smaller one says nothing: head and tail take its place
MAX_PARTIAL_SHARE = 0.25  # of a chunk, for its summary: so each round leaves less
UNCOUNTED_SHARE = 0.5  # of a prompt, for text that only an estimate measures


class SummaryCompressor:
    """Summaries by `backend`'s model (that of plain requests), as renditions for any router.

    Each prompt has at most `max_prompt_tokens`, and never more than the backend's own limit leaves room for;
    a text of more than `max_chunks` prompts loses its middle first. `cache` keeps summaries by content,
    query, target and configuration: any mutable mapping of strings, so that processes can share one; in
    memory where none is given. Without the same cache another process asks its model again, which gives the
    same text as far as that model's greedy decoding does. `model` is the name in `configuration`; None asks
    the backend. `template_kwargs` are variables of the chat template, such as one that turns reasoning off.

    `compress` raises where the model fails, is silent for `timeout_s` or answers nothing: routers guard it,
    and show head and tail in its place. A router's own `compress_timeout_s` should not be shorter. Each
    summary that had to be made is recorded as a `summary` event with the tokens it cost.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        model: str | None = None,
        max_prompt_tokens: int = 8_000,
        max_chunks: int = 16,
        timeout_s: float | None = 120.0,
        cache: MutableMapping[str, str] | None = None,
        template_kwargs: Mapping[str, Any] | None = None,
        recorder: Recorder = NULL_RECORDER,
    ) -> None:
        if not isinstance(backend, Backend):
            raise ConfigurationError(f"backend must be a Backend, not {type(backend).__name__}")
        for name, value, least in (
            ("max_prompt_tokens", max_prompt_tokens, 500),
            ("max_chunks", max_chunks, 2),
        ):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigurationError(f"{name}={value!r}: must be an integer of at least {least}")
        if timeout_s is not None and not 0 < timeout_s <= 86_400:
            raise ConfigurationError(f"timeout_s={timeout_s!r}: must be None or in (0, 86,400] seconds")
        self.backend = backend
        self.timeout_s = timeout_s
        self._model = model
        self._max_prompt_tokens = max_prompt_tokens
        self._max_chunks = max_chunks
        self._cache: MutableMapping[str, str] = SummaryCache() if cache is None else cache
        self._template_kwargs = dict(template_kwargs or {})
        self._recorder = recorder

    @property
    def configuration(self) -> str:
        """Model, limits and prompt version; asks the backend for its model's name where none was given."""
        model = self._model if self._model is not None else self.backend.capabilities.verifier
        variables = json.dumps(self._template_kwargs, sort_keys=True, default=str)
        return (
            f"summary/{VERSION}(model={model},max_prompt_tokens={self._max_prompt_tokens},"
            f"max_chunks={self._max_chunks},template={variables})"
        )

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A line with size and reference, and the summary; the text itself where it is within the target."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "summary", "text")
        header = f"[Summary of {len(text):,} characters; {short_reference(text)}]\n"
        room = target_tokens - counter.count(header)
        if room < MIN_SUMMARY_TOKENS:
            return HeadTail().compress(text, query=query, target_tokens=target_tokens, counter=counter)
        key = self._key(text, query, room, counter)
        summary = self._found(key)
        if summary is None:
            summary = self._kept(key, self._summarize(text, query, room, counter))
        return Rendition(header + summary, "summary", "text")

    def _key(self, text: str, query: str, room: int, counter: TokenCounter) -> str:
        parts = [self.configuration, content_hash(text), content_hash(query), str(room), counter.name]
        return content_hash("\n".join(parts))

    def _summarize(self, text: str, query: str, room: int, counter: TokenCounter) -> str:
        max_prompt = self._longest_prompt(room)
        around = sum(counter.count(part) for m in summary_messages("", query, room) for part in m.texts())
        share = 1.0 if self.backend.prompt_counter is not None else UNCOUNTED_SHARE
        chunk_tokens = int((max_prompt - around) * share * 0.9)
        if chunk_tokens < 2 * MIN_SUMMARY_TOKENS:
            raise ConfigurationError(
                f"max_prompt_tokens={max_prompt:,}: too few for a summary with this query; raise it"
            )
        longest = chunk_tokens * (self._max_chunks - 1)
        shown = HeadTail().truncate(text, longest, counter)
        calls = SummaryCalls(
            self.backend,
            counter,
            max_prompt_tokens=max_prompt,
            max_calls=4 * self._max_chunks,
            timeout_s=self.timeout_s,
            template_kwargs=self._template_kwargs,
        )
        try:
            with calls:
                summary = self._reduce(shown, query, room, chunk_tokens, counter, calls)
                return first_tokens(summary, room, counter)
        finally:
            self._recorder.record(
                "summary",
                model=self.configuration,
                num_calls=calls.cost.num_calls,
                prompt_tokens=calls.cost.prompt_tokens,
                completion_tokens=calls.cost.completion_tokens,
                num_characters=len(text),
                elapsed_s=calls.elapsed_s,
            )

    def _reduce(
        self,
        text: str,
        query: str,
        room: int,
        chunk_tokens: int,
        counter: TokenCounter,
        calls: SummaryCalls,
    ) -> str:
        partial_tokens = min(max(room, 4 * MIN_SUMMARY_TOKENS), int(chunk_tokens * MAX_PARTIAL_SHARE))
        while counter.count(text) > chunk_tokens:
            partials = [
                first_tokens(calls.summary(chunk, query, partial_tokens), partial_tokens, counter)
                for chunk in _chunks(text, chunk_tokens, counter)
            ]
            text = "\n\n".join(partials)
        return calls.summary(text, query, room)

    def _longest_prompt(self, answer_tokens: int) -> int:
        limit = self.backend.capabilities.max_verifier_tokens
        if limit is None:
            return self._max_prompt_tokens
        return min(self._max_prompt_tokens, limit - answer_tokens)

    def _found(self, key: str) -> str | None:
        try:
            found = self._cache.get(key)
        except Exception as error:  # a cache that fails costs a call, not the summary
            self._recorder.record("store_failed", error=type(error).__name__)
            return None
        return found if isinstance(found, str) and found else None

    def _kept(self, key: str, summary: str) -> str:
        """The summary that the cache has by now: of two made at once, the first."""
        try:
            kept = self._cache.setdefault(key, summary)
        except Exception as error:
            self._recorder.record("store_failed", error=type(error).__name__)
            return summary
        return kept if isinstance(kept, str) and kept else summary


def _chunks(text: str, chunk_tokens: int, counter: TokenCounter) -> Iterator[str]:
    """The text in pieces of at most about `chunk_tokens`, cut after lines where there are any."""
    start = 0
    while start < len(text):
        rest = len(text) - start
        fitting = longest_fit(
            lambda n, start=start: counter.count(text[start : start + n]),  # type: ignore[misc]
            rest,
            chunk_tokens,
        )
        end = snap_back(text, start + max(1, fitting), start)
        yield text[start : max(end, start + 1)]
        start = max(end, start + 1)
