"""The model calls of one summary: each within the model's context limit, all of them within a time limit."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from ..backends.answer import ChatResponse, collect
from ..backends.base import Backend
from ..backends.request import ChatRequest
from ..compress.cuts import longest_fit, snap_back
from ..errors import BackendError, ContextOverflowError, ResponseTimeoutError
from ..messages import Message
from ..tokens import TokenCounter
from .prompts import summary_messages

__all__ = ["SummaryCalls", "SummaryCost", "first_tokens"]

WORDS_PER_TOKEN = 0.7  # what a model is told, so that its answer ends before it is cut
MIN_HALF_CHARS = 200  # a text this short is not halved any further
_SENTENCE_ENDS = (". ", ".\n", "! ", "? ", "\n", "。", "！", "？")


@dataclass(slots=True)
class SummaryCost:
    """What the calls took: the model's own counts of tokens."""

    num_calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0


class SummaryCalls:
    """Asks a backend for summaries, greedily; a context that ends with its last call and frees its timer.

    `max_prompt_tokens` limits each prompt, counted by the backend where it can. Raises BackendError where the
    model fails or answers nothing, ResponseTimeoutError after `timeout_s` for all calls together.
    """

    def __init__(
        self,
        backend: Backend,
        counter: TokenCounter,
        *,
        max_prompt_tokens: int,
        max_calls: int,
        timeout_s: float | None,
        template_kwargs: Mapping[str, Any],
    ) -> None:
        self._backend, self._counter = backend, counter
        self._max_prompt_tokens, self._max_calls = max_prompt_tokens, max_calls
        self._template_kwargs = template_kwargs
        self._abort = threading.Event()
        self._timeout_s = timeout_s
        self._started_s = time.monotonic()
        self._timer = threading.Timer(timeout_s, self._abort.set) if timeout_s is not None else None
        self.cost = SummaryCost()

    def __enter__(self) -> SummaryCalls:
        if self._timer is not None:
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()

    @property
    def elapsed_s(self) -> float:
        """Time since the first call could begin."""
        return time.monotonic() - self._started_s

    def summary(self, text: str, query: str, max_tokens: int) -> str:
        """The model's summary; of a text too long for its context, the summaries of both halves."""
        messages = summary_messages(text, query, max(10, int(max_tokens * WORDS_PER_TOKEN)))
        if self._fits(messages):
            try:
                return self._answer(messages, max_tokens)
            except ContextOverflowError:
                pass  # counted less than the model does: halve, as if it had been seen here
        if len(text) < 2 * MIN_HALF_CHARS:
            raise BackendError(f"a summary's prompt exceeds {self._max_prompt_tokens:,} tokens")
        middle = snap_back(text, len(text) // 2, 0)
        halves = (text[:middle], text[middle:])
        return "\n".join(self.summary(half, query, max(1, max_tokens // 2)) for half in halves)

    def _fits(self, messages: tuple[Message, ...]) -> bool:
        count = self._backend.prompt_counter
        if count is not None:
            try:
                return count(messages, ()) <= self._max_prompt_tokens
            except Exception:  # a template or a server that cannot count; the estimate has to do
                pass
        texts = sum(self._counter.count(text) for message in messages for text in message.texts())
        return texts <= self._max_prompt_tokens

    def _answer(self, messages: tuple[Message, ...], max_tokens: int) -> str:
        if self.cost.num_calls >= self._max_calls:
            raise BackendError(f"a summary took more than {self._max_calls} calls")
        request = ChatRequest(
            messages=messages,
            max_tokens=max_tokens,
            temperature=0.0,
            chat_template_kwargs=self._template_kwargs,
        )
        self.cost.num_calls += 1
        try:
            answer = collect(self._backend.stream(request, abort=self._abort))
        except Exception as error:
            if self._abort.is_set():
                raise ResponseTimeoutError(f"no summary within {self._timeout_s:g} s") from error
            raise
        self.cost.prompt_tokens += answer.usage.prompt_tokens
        self.cost.completion_tokens += answer.usage.completion_tokens
        if self._abort.is_set():
            raise ResponseTimeoutError(f"no summary within {self._timeout_s:g} s")
        return _whole_sentences(answer)


def first_tokens(text: str, max_tokens: int, counter: TokenCounter) -> str:
    """The beginning of a text that has at most `max_tokens`, cut at a good place."""
    fitting = longest_fit(lambda n: counter.count(text[:n]), len(text), max_tokens)
    return text[: snap_back(text, fitting, 0)]


def _whole_sentences(answer: ChatResponse) -> str:
    """The summary; one that ran into its limit ends with its last whole sentence, if that is far along."""
    text = answer.content.strip()
    if not text:
        raise BackendError("the model answered without a summary")
    if answer.finish_reason == "length":
        end = max(text.rfind(mark) + len(mark.rstrip()) for mark in _SENTENCE_ENDS)
        if end > len(text) // 2:
            return text[:end].rstrip()
    return text
