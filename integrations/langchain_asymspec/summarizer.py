"""AsymSpecSummarizer: any compressor as the `summarizer` of LangChain's SummarizationMiddleware."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import BaseMessage, HumanMessage

from asymspec_agents.compress.base import Compressor
from asymspec_agents.compress.guarded import GuardedCompressor
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.recording import NULL_RECORDER, Recorder
from asymspec_agents.store import ContentStore, MemoryStore
from asymspec_agents.summary.history import transcript
from asymspec_agents.tokens import EstimateCounter, TokenCounter

from .convert import wire_messages

__all__ = ["AsymSpecSummarizer"]

MAX_QUERY_CHARS = 2_000


class AsymSpecSummarizer:
    """Makes one text of the messages that the middleware takes out of an agent's state.

    `compressor` writes it: a SummaryCompressor asks a model, any other works without one. It is made for what
    the first message of the user asks, and has at most about `max_tokens`. A compressor that fails, or takes
    longer than `timeout_s`, costs head and tail of the messages instead, never the run. `store` keeps what
    was summarized, under the reference that the text shows.

    Pass `trim_tokens_to_summarize=None` to the middleware: it would cut the messages to 4,000 tokens before
    they come here, and compressors bound their input themselves. No token of a summary reaches LangChain's
    callbacks, and so none the agent's stream.
    """

    def __init__(
        self,
        compressor: Compressor,
        *,
        max_tokens: int = 800,
        timeout_s: float | None = 150.0,
        counter: TokenCounter | None = None,
        store: ContentStore | None = None,
        recorder: Recorder = NULL_RECORDER,
    ) -> None:
        if not callable(getattr(compressor, "compress", None)):
            raise ConfigurationError(f"compressor must be a Compressor, not {type(compressor).__name__}")
        if not isinstance(max_tokens, int) or isinstance(max_tokens, bool) or max_tokens < 100:
            raise ConfigurationError(f"max_tokens={max_tokens!r}: must be an integer of at least 100")
        if timeout_s is not None and not 0 < timeout_s <= 86_400:
            raise ConfigurationError(f"timeout_s={timeout_s!r}: must be None or in (0, 86,400] seconds")
        self.store: ContentStore = store if store is not None else MemoryStore()
        self._compressor = GuardedCompressor(compressor, timeout_s=timeout_s, recorder=recorder)
        self._max_tokens = max_tokens
        self._counter = counter if counter is not None else EstimateCounter()
        self._recorder = recorder

    def __call__(self, messages: Sequence[BaseMessage]) -> str:
        """The summary's text. Raises MessageError for messages that no model could be sent."""
        text = transcript(wire_messages(messages).messages)
        try:
            self.store.put(text)
        except Exception as error:  # a full disk costs the reference, not the run
            self._recorder.record("store_failed", error=type(error).__name__)
        rendition = self._compressor.compress(
            text, query=_task(messages), target_tokens=self._max_tokens, counter=self._counter
        )
        return rendition.text


def _task(messages: Sequence[BaseMessage]) -> str:
    """What the user asked first; an earlier summary stands in a user message too, but asks nothing."""
    for message in messages:
        if isinstance(message, HumanMessage) and message.additional_kwargs.get("lc_source") is None:
            return str(message.text)[:MAX_QUERY_CHARS]
    return ""
