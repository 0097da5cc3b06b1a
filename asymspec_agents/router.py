"""ContextRouter: takes an LLM call's messages and tools, gives both of its views.

The router keeps no state of a conversation: a view is a pure function of the list at hand, the policy and the
compressor (renditions marked degraded aside). What it caches are counts and renditions by content.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from .attachments import Attachments, ReadMessages
from .compress.auto import AutoCompressor
from .compress.base import Compressor
from .messages import Message, ToolSpec, parse_messages, parse_tools
from .protocol import Edit
from .recording import NULL_RECORDER, Recorder, detail_of
from .rendition_cache import RenditionCache
from .store import ContentStore, MemoryStore
from .tokens import EstimateCounter, TokenCounter
from .views.fitting import Conversation, Fitter, PromptCounter
from .views.policy import ViewPolicy
from .views.rate import RateState
from .views.recorded import recorded_view, task_digest
from .views.renditions import Renditions
from .views.replay import Fold, Tier
from .views.routed import PartChange, RoutedContext, RoutingReport
from .views.tool_view import ToolDoc, shorten_docs, signature_tools
from .views.turns import History

__all__ = ["ContextRouter", "PartChange", "RoutedContext", "RoutingReport", "ToolDoc", "record_view"]


class ContextRouter:
    """Routes LLM calls; one object serves any number of conversations and threads.

    `counter` estimates when none is given. `prompt_counter` counts a whole prompt with its chat template; it
    is called only where a view may be near its limit, a few times a call at most, and where it fails the
    estimate stands. `store` keeps the originals of what was left out, in memory when none is given.
    `attachments` makes text of documents and images; without it, by its defaults. `rendition_cache` shares
    renditions with other processes. Routers of equal `configuration` make equal views, counts of
    `prompt_counter` aside.
    """

    def __init__(
        self,
        policy: ViewPolicy | None = None,
        *,
        counter: TokenCounter | None = None,
        compressor: Compressor | None = None,
        store: ContentStore | None = None,
        prompt_counter: PromptCounter | None = None,
        attachments: Attachments | None = None,
        rendition_cache: RenditionCache | None = None,
        recorder: Recorder = NULL_RECORDER,
    ) -> None:
        self.policy = policy if policy is not None else ViewPolicy()
        self.store = store if store is not None else MemoryStore()
        self.attachments = attachments if attachments is not None else Attachments()
        self.compressor = compressor if compressor is not None else AutoCompressor()
        self._recorder = recorder
        counter = counter if counter is not None else EstimateCounter()
        self.configuration = repr(
            (self.policy, self.compressor.configuration, counter.name, self.attachments.configuration)
        )
        self._renditions = Renditions(
            self.compressor,
            counter,
            self.store,
            recorder,
            min_gain=self.policy.min_gain,
            protected=self.policy.protected,
            timeout_s=self.policy.compress_timeout_s,
            kinds=self.policy.compressor_kinds,
            exact_tokens=self.policy.longest_shown_tokens,
            shared=rendition_cache,
        )
        self._fitter = Fitter(self.policy, self._renditions, prompt_counter)

    def route(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[ToolSpec | Mapping[str, Any]] | None = None,
        *,
        tool_docs: Sequence[ToolDoc] = (),
        rate: RateState | None = None,
        task: str | None = None,
    ) -> RoutedContext:
        """Both views of the call; `tool_docs` are the docs a framework wrote into the system prompt.

        `rate` says to which share each turn is compressed where that is not the policy's own ratio. `task` is
        what renditions are made for where that is not the list's first user message.

        Raises MessageError for malformed messages or tools, ContextOverflowError where a limit cannot be met;
        nothing else.
        """
        read = self.attachments.read(parse_messages(messages), self.store, self._recorder)
        return self.route_read(read, tools, tool_docs=tool_docs, rate=rate, task=task)

    def route_read(
        self,
        read: ReadMessages,
        tools: Sequence[ToolSpec | Mapping[str, Any]] | None = None,
        *,
        tool_docs: Sequence[ToolDoc] = (),
        rate: RateState | None = None,
        task: str | None = None,
    ) -> RoutedContext:
        """The same as `route` for messages whose attachments have been read."""
        started = time.monotonic()
        policy, count = self.policy, self._renditions.count
        full_tools = parse_tools(tools)
        docs = shorten_docs(read.shortened, tool_docs, count, policy.min_gain)
        short_tools = (
            signature_tools(full_tools, count, policy.min_gain) if policy.tool_signatures else full_tools
        )
        original = self._fitter.read(read.full, full_tools, task, read.headers)
        shortened = (
            self._fitter.read(docs.messages, short_tools, task, read.headers)
            if docs.messages is not read.full
            else replace(original, tools=short_tools)
        )
        full = self._fitter.fit("full", original)
        compressed = self._fitter.fit("compressed", shortened, rate)
        history = shortened.history
        # Images that only the drafter sees are no texts of the full view.
        places = ((part.message, part.part) for part in original.history.parts)
        full_texts = dict(zip(places, (long.text for long in full.fold.shown), strict=True))
        edits = tuple(
            Edit(message=part.message, part=part.part, text=short.text)
            for part, short in zip(history.parts, compressed.fold.shown, strict=True)
            if short.text != full_texts.get((part.message, part.part))
        )
        report = RoutingReport(
            num_messages=len(read.full),
            num_turns=history.num_turns,
            num_edits=len(edits),
            num_compressed_parts=sum(shown.compressor is not None for shown in compressed.fold.shown),
            num_degraded=sum(shown.degraded for shown in compressed.fold.shown),
            full_tokens=full.num_tokens,
            compressed_tokens=compressed.num_tokens,
            is_exact=compressed.is_exact,
            turn_tiers=_turn_tiers(history, compressed.fold),
            changes=_changes(shortened, compressed.fold),
            drafter_cuts=_changes(original, full.fold),
            num_shortened_tools=sum(
                before is not after for before, after in zip(full_tools, short_tools, strict=True)
            ),
            num_shortened_docs=docs.num_shortened,
            num_documents=read.num_documents,
            num_images=read.num_images,
            num_degraded_attachments=read.num_degraded,
            num_unseen_images=read.num_unseen,
        )
        routed = RoutedContext(original.shown(full.fold), edits, full_tools, short_tools, report)
        record_view(self._recorder, routed, time.monotonic() - started, original.history)
        return routed

    async def aroute(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[ToolSpec | Mapping[str, Any]] | None = None,
        *,
        tool_docs: Sequence[ToolDoc] = (),
        rate: RateState | None = None,
        task: str | None = None,
    ) -> RoutedContext:
        """The same as `route`, computed in a thread so that compression never blocks the event loop."""
        return await asyncio.to_thread(self.route, messages, tools, tool_docs=tool_docs, rate=rate, task=task)


def record_view(
    recorder: Recorder, routed: RoutedContext, elapsed_s: float, history: History | None = None
) -> None:
    """Records a call's `view` event: counts; its messages by digest where contents or detail are wanted.

    With contents, the texts themselves come before it. `history` is what was read in the full view.
    """
    if recorder is NULL_RECORDER:
        return
    report = routed.report
    both: dict[str, Any] = {}
    if recorder.captures_content or detail_of(recorder) is not None:
        recorded = recorded_view(routed, history)
        both = {"messages": recorded.messages}
        if recorder.captures_content:
            for digest, text in recorded.texts.items():
                recorder.record("text", digest=digest, text=text)
    recorder.record(
        "view",
        elapsed_s=elapsed_s,
        task_digest=task_digest(routed.full),
        **both,
        num_messages=report.num_messages,
        num_turns=report.num_turns,
        num_edits=report.num_edits,
        num_compressed_parts=report.num_compressed_parts,
        num_degraded=report.num_degraded,
        full_tokens=report.full_tokens,
        compressed_tokens=report.compressed_tokens,
        is_exact=report.is_exact,
        num_drafter_cuts=len(report.drafter_cuts),
        num_shortened_tools=report.num_shortened_tools,
        num_shortened_docs=report.num_shortened_docs,
        num_summarized_messages=report.num_summarized_messages,
        num_documents=report.num_documents,
        num_images=report.num_images,
        num_degraded_attachments=report.num_degraded_attachments,
        num_unseen_images=report.num_unseen_images,
    )


def _turn_tiers(history: History, fold: Fold) -> tuple[Tier, ...]:
    tiers = [Tier.VERBATIM] * history.num_turns
    for part, tier in zip(history.parts, fold.tiers, strict=True):
        if part.turn is not None:
            tiers[part.turn] = max(tiers[part.turn], tier)
    return tuple(tiers)


def _changes(conversation: Conversation, fold: Fold) -> tuple[PartChange, ...]:
    return tuple(
        PartChange(
            part.message,
            part.part,
            tier,
            original.tokens,
            shown.tokens,
            shown.compressor,
            shown.degraded,
        )
        for part, original, tier, shown in zip(
            conversation.history.parts, conversation.originals, fold.tiers, fold.shown, strict=True
        )
        if shown.compressor is not None
    )
