"""SummaryRouter: the compressed view is one summary of the old turns and the turns since, as whole messages.

An explicit other policy than ContextRouter's edits: messages are left out. It suits long conversations whose
old turns matter as a whole; each summary costs a model call, and the prompt begins anew when one is made.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..attachments import ReadMessages
from ..errors import ConfigurationError
from ..messages import ContentPart, Message, ToolSpec, parse_messages
from ..protocol import derive_edits
from ..recording import NULL_RECORDER, Recorder
from ..router import ContextRouter, RoutedContext, ToolDoc, record_view
from ..tokens import CachedCounter, EstimateCounter, TokenCounter
from ..views.fitting import PromptCounter
from ..views.policy import ViewPolicy
from ..views.prompt_size import message_overhead_tokens
from ..views.rate import RateState
from ..views.turns import SYSTEM_ROLES, History, read_history
from .chain import SummaryChain
from .compressor import SummaryCompressor
from .history import Cut, HistorySummary, cuts

__all__ = ["SummaryRouter"]

_EVERYTHING = 10**9
_TAG = "asymspec_summary"  # a field of the message that holds a summary, gone before the view is handed on
MAX_QUERY_CHARS = 2_000


class SummaryRouter:
    """Routes as a ContextRouter does until a history is long enough to be summarized, see HistorySummary.

    The compressed view then has, in order: every system message up to there, one user message with the
    summary and the newest user message before the turns that are kept (if there is one), and the later
    messages with long texts compressed as ever. Calls and results stay together. Both budgets of the policy
    hold as in a ContextRouter. The full view is the conversation itself.

    `summarizer` writes the summaries; where it fails, head and tail of the old turns stand in for it, marked
    degraded. A summary is a function of the messages, the configuration and the model; with the same cache of
    summaries every process sends the same view, without it each new process asks the model again, once for
    every summary of the conversation so far. `options` are a ContextRouter's own.
    """

    def __init__(
        self,
        summarizer: SummaryCompressor,
        history: HistorySummary | None = None,
        policy: ViewPolicy | None = None,
        *,
        counter: TokenCounter | None = None,
        prompt_counter: PromptCounter | None = None,
        recorder: Recorder = NULL_RECORDER,
        **options: Any,
    ) -> None:
        self.history = history if history is not None else HistorySummary()
        self.policy = policy if policy is not None else ViewPolicy()
        if self.history.summary_tokens >= self.policy.first_sight_tokens:
            raise ConfigurationError(
                f"summary_tokens={self.history.summary_tokens}: must be below the policy's "
                f"first_sight_tokens={self.policy.first_sight_tokens}, or summaries would be compressed again"
            )
        counter = counter if counter is not None else EstimateCounter()
        self._count = CachedCounter(counter).count
        self._recorder = recorder
        self._short = ContextRouter(
            replace(self.policy, max_drafter_tokens=None),
            counter=counter,
            prompt_counter=_counting_merged(prompt_counter) if prompt_counter is not None else None,
            recorder=_WithoutViews(recorder),
            **options,
        )
        self.store = self._short.store
        self._chain = SummaryChain(
            summarizer, counter, self.store, recorder, max_tokens=self.history.summary_tokens
        )
        everything = replace(
            self.policy,
            keep_last=_EVERYTHING,
            first_sight_tokens=_EVERYTHING,
            max_verifier_tokens=None,
            tool_signatures=False,
        )
        self._full = ContextRouter(everything, counter=counter, prompt_counter=prompt_counter, **options)

    def route(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[ToolSpec | Mapping[str, Any]] | None = None,
        *,
        tool_docs: Sequence[ToolDoc] = (),
        rate: RateState | None = None,
    ) -> RoutedContext:
        """Both views of the call; raises as ContextRouter's does."""
        started = time.monotonic()
        read = self._short.attachments.read(parse_messages(messages), self.store, self._recorder)
        policy, given = self.policy, read.shortened
        history = read_history(
            given,
            policy.observation_markers,
            policy.call_markers,
            headers=read.headers,
            call_patterns=policy.call_patterns,
        )
        made = cuts(given, history, self._sizes(given, history), self.history)
        full = self._full.route_read(read, tools)
        if made:
            routed = self._summarized(read, history, made, tools, tool_docs, rate)
        else:
            routed = self._short.route_read(read, tools, tool_docs=tool_docs, rate=rate)
            edits = derive_edits(full.full, routed.compressed)
            routed = replace(routed, edits=edits, report=replace(routed.report, num_edits=len(edits)))
        report = replace(
            routed.report,
            num_messages=len(given),
            num_turns=history.num_turns,
            full_tokens=full.report.full_tokens,
            drafter_cuts=full.report.drafter_cuts,
        )
        routed = replace(routed, full=full.full, report=report)
        record_view(self._recorder, routed, time.monotonic() - started)
        return routed

    async def aroute(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[ToolSpec | Mapping[str, Any]] | None = None,
        *,
        tool_docs: Sequence[ToolDoc] = (),
        rate: RateState | None = None,
    ) -> RoutedContext:
        """The same as `route`, in a thread: neither compression nor a model blocks the event loop."""
        return await asyncio.to_thread(self.route, messages, tools, tool_docs=tool_docs, rate=rate)

    def _sizes(self, messages: Sequence[Message], history: History) -> list[int]:
        """About how many tokens each message has in the compressed view once its turn is old."""
        policy = self.policy
        sizes = [message_overhead_tokens(message, self._count) for message in messages]
        for part in history.parts:
            tokens = self._count(part.text)
            is_short = tokens < policy.min_part_tokens or part.kind in ("system", "call")
            if not is_short and (part.kind != "user" or tokens > policy.first_sight_tokens):
                tokens = min(policy.max_rendition_tokens, int(tokens * policy.ratio))
            sizes[part.message] += tokens
        return sizes

    def _summarized(
        self,
        read: ReadMessages,
        history: History,
        made: tuple[Cut, ...],
        tools: Sequence[ToolSpec | Mapping[str, Any]] | None,
        tool_docs: Sequence[ToolDoc],
        rate: RateState | None,
    ) -> RoutedContext:
        cut, given = made[-1], read.shortened
        users = [index for index in history.user_messages if index < cut.end]
        first_user = next(iter(history.user_messages), len(given))
        words = (part for part in history.parts if part.message == first_user and not part.header_chars)
        task = "\n".join(part.text for part in words)
        # What is asked for only later must not make the summaries anew.
        query = task[:MAX_QUERY_CHARS] if first_user < made[0].end else ""
        summary = self._chain.summary(given, made, query)
        systems = [index for index in range(cut.end) if given[index].role in SYSTEM_ROLES]
        kept = [*systems, *users[-1:], *range(cut.end, len(given))]
        num_summarized = cut.end - len(systems)
        shown = [given[index] for index in kept]
        shown.insert(len(systems), _summary_message(summary.text, num_summarized))
        at = {index: place + (place >= len(systems)) for place, index in enumerate(kept)}
        headers = {(at[index], part): size for (index, part), size in read.headers.items() if index in at}
        routed = self._short.route_read(
            replace(read, full=tuple(shown), shortened=tuple(shown), headers=headers),
            tools,
            tool_docs=tool_docs,
            rate=None if rate is None else rate.without_turns(cut.num_turns),
            task=task,
        )
        sources: list[int | None] = [*kept]
        if not users:
            sources.insert(len(systems), None)
        report = replace(
            routed.report,
            num_edits=0,
            num_degraded=routed.report.num_degraded + summary.degraded,
            changes=tuple(
                replace(change, message=change.message - (bool(users) and change.message > len(systems)))
                for change in routed.report.changes
            ),
            num_summarized_messages=num_summarized,
            num_summarized_turns=cut.num_turns,
        )
        return replace(
            routed, edits=(), messages=_merged(routed.compressed), sources=tuple(sources), report=report
        )


class _WithoutViews:
    """Another recorder without `view` events: the one of this call is recorded with both its views."""

    captures_content = False  # which only views have

    def __init__(self, inner: Recorder) -> None:
        self._inner = inner

    def record(self, event: str, /, **fields: Any) -> None:
        if event != "view":
            self._inner.record(event, **fields)


def _summary_message(summary: str, num_messages: int) -> Message:
    heading = f"Earlier in this conversation ({num_messages} messages), in short:"
    return Message.model_validate({"role": "user", "content": f"{heading}\n{summary}", _TAG: True})


def _merged(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The summary and the user message behind it as one: many chat templates want roles to alternate."""
    at = next((at for at, message in enumerate(messages) if (message.model_extra or {}).get(_TAG)), None)
    if at is None:
        return tuple(messages)
    summary = str(messages[at].content)
    following = messages[at + 1] if at + 1 < len(messages) else None
    if following is None or following.role != "user":
        alone = Message(role="user", content=summary)
        return (*messages[:at], alone, *messages[at + 1 :])
    content: str | tuple[ContentPart, ...] = summary
    if isinstance(following.content, str):
        content = f"{summary}\n\n{following.content}"
    elif following.content is not None:
        content = (ContentPart(type="text", text=summary), *following.content)
    merged = following.model_copy(update={"content": content})
    return (*messages[:at], merged, *messages[at + 2 :])


def _counting_merged(count: PromptCounter) -> PromptCounter:
    return lambda messages, tools: count(_merged(messages), tools)
