"""SummaryRouter: one summary and the turns since, as whole messages within the budgets."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asymspec_agents.attachments import AttachmentPolicy, Attachments
from asymspec_agents.backends.scripted import ScriptedBackend
from asymspec_agents.errors import BackendError, ConfigurationError, ContextOverflowError
from asymspec_agents.messages import Message, ToolSpec, parse_messages
from asymspec_agents.router import ContextRouter, RoutedContext
from asymspec_agents.store import content_hash
from asymspec_agents.summary import HistorySummary, SummaryCompressor, SummaryRouter
from asymspec_agents.trace import MemoryRecorder
from asymspec_agents.views import RateState, ViewPolicy
from asymspec_agents.views.rate import RateStep
from tests.attachments.files import image, image_part
from tests.routing import (
    FirstChars,
    QuarterCounter,
    Wire,
    agent_run,
    as_read,
    call,
    conversations,
    exact_tokens,
)

HISTORY = HistorySummary(keep_last=2, high_water_tokens=1_200, summary_tokens=150)


def answers(request: Any) -> str:
    return f"So far: {content_hash(request.messages[1].texts()[0])[:16]}."


def make_router(
    reply: Any = answers, history: HistorySummary = HISTORY, cache: Any = None, **options: Any
) -> SummaryRouter:
    compressor = SummaryCompressor(ScriptedBackend(reply), cache=cache, timeout_s=None)
    policy = ViewPolicy(compress_timeout_s=None, **options.pop("policy", {}))
    options = {"counter": QuarterCounter(), "compressor": FirstChars(), **options}
    return SummaryRouter(compressor, history, policy, **options)


def common_prefix(before: RoutedContext, after: RoutedContext) -> int:
    pairs = list(zip(before.compressed, after.compressed, strict=False))
    return next((index for index, (one, other) in enumerate(pairs) if one != other), len(pairs))


def test_a_short_conversation_is_routed_as_ever() -> None:
    policy = ViewPolicy(compress_timeout_s=None, max_drafter_tokens=2_500)
    plain = ContextRouter(policy, counter=QuarterCounter(), compressor=FirstChars()).route(agent_run(3))
    routed = make_router(policy={"max_drafter_tokens": 2_500}).route(agent_run(3))
    assert routed == plain
    assert routed.messages is None


def test_a_long_one_is_a_summary_and_the_turns_since() -> None:
    messages = agent_run(12)
    routed = make_router().route(messages)
    view = routed.compressed
    assert [message.role for message in view[:3]] == ["system", "user", "assistant"]
    asked = str(view[1].content)
    assert asked.startswith("Earlier in this conversation (")
    assert "So far:" in asked
    assert asked.endswith("\n\nWhen does the train to Rome leave?")
    num_kept = len(view) - 2
    assert view[-3:] == parse_messages(messages)[-3:]
    assert [message.wire() for message in routed.full] == messages
    report = routed.report
    assert report.num_summarized_messages == len(messages) - 1 - num_kept
    assert (report.num_messages, report.num_turns, report.num_edits) == (len(messages), 12, 0)
    assert report.compressed_tokens < report.full_tokens / 3
    request = routed.request()
    assert request.edits is None
    assert request.messages == view
    assert routed.sources == (0, 1, *range(len(messages) - num_kept, len(messages)))


def test_between_summaries_calls_begin_alike() -> None:
    router = make_router()
    messages = agent_run(60)
    views = [router.route(messages[: 2 + 2 * turn]) for turn in range(1, 61)]
    num_new = 0
    for before, after in pairwise(views):
        if before.report.num_summarized_messages == after.report.num_summarized_messages:
            # Only the turn that left the verbatim window may change.
            assert common_prefix(before, after) >= len(before.compressed) - 4
        else:
            num_new += 1
            assert before.report.num_summarized_messages < after.report.num_summarized_messages
    assert 5 <= num_new <= 15


def test_any_process_with_the_same_cache_sends_the_same_and_without_it_asks_again() -> None:
    cache: dict[str, str] = {}
    messages = agent_run(30)
    grown = make_router(cache=cache)
    views = [grown.route(messages[: 2 + 2 * turn]) for turn in range(1, 31)]
    never = make_router(reply=[], cache=cache)
    assert never.route(messages) == views[-1]
    assert make_router().route(messages) == views[-1]


def test_a_summary_that_fails_is_head_and_tail_marked_degraded_and_stays() -> None:
    recorder = MemoryRecorder()
    replies: list[Any] = [BackendError("down"), *["Fine."] * 10]
    router = make_router(replies, recorder=recorder)
    messages = agent_run(9)
    routed = router.route(messages)
    assert routed.report.num_degraded >= 1
    assert "left out; sha256:" in str(routed.compressed[1].content)
    assert router.route(messages) == routed
    assert [event.event for event in recorder.events].count("compress") == 1
    assert [event.event for event in recorder.events].count("view") == 2


def test_the_summarized_text_is_in_the_store() -> None:
    router = make_router()
    text, num_found = str(router.route(agent_run(20)).compressed[1].content), 0
    while "sha256:" in text:  # each summary's source begins with the summary before it
        reference = text.split("sha256:")[1][:12]
        kept = router.store.get_text(f"sha256:{reference}")
        assert kept is not None
        text, num_found = kept, num_found + 1
    assert num_found > 1
    assert "row 0: some train leaves" in text
    assert "[calls search:" in text


@pytest.mark.parametrize("sees", ["text", "images"])
def test_several_user_messages_and_images(sees: Literal["text", "images"]) -> None:
    picture = image_part(image())
    messages = agent_run(4)
    messages += [{"role": "system", "content": "Be brief."}]
    messages += [{"role": "user", "content": [picture, {"type": "text", "text": "And this one?"}]}]
    messages += agent_run(8)[2:]
    attachments = Attachments(AttachmentPolicy(drafter_sees=sees))
    routed = make_router(attachments=attachments).route(messages)
    view = routed.compressed
    assert [str(message.content) for message in view[:2]] == ["You are an agent.", "Be brief."]
    summary, shown, asked = view[2].texts()
    assert summary.startswith("Earlier in this conversation (")
    assert shown.startswith("[image: PNG, 40×30, ")
    assert asked == "And this one?"
    assert routed.report.num_images == 1
    given = [message.wire() for message in routed.full]
    assert given == (messages if sees == "images" else as_read(messages))


def test_a_call_and_its_late_result_stay_together() -> None:
    messages = agent_run(8)
    messages[2]["tool_calls"].append(call("late"))
    messages.append({"role": "tool", "tool_call_id": "late", "content": "x"})
    routed = make_router().route(messages)
    assert routed.messages is None


def test_an_adaptive_ratio_means_the_same_turns_as_without_a_summary() -> None:
    messages = agent_run(9)
    rate = RateState(steps=(RateStep(6, 0.6),), num_turns=6)
    history = HistorySummary(keep_last=4, high_water_tokens=600, summary_tokens=150)
    whole = make_router(history=history).route(messages, rate=rate)
    edited = ContextRouter(
        ViewPolicy(compress_timeout_s=None), counter=QuarterCounter(), compressor=FirstChars()
    ).route(messages, rate=rate)
    assert whole.report.num_summarized_turns > 2
    num_kept = len(whole.compressed) - 2
    assert whole.compressed[2:] == edited.compressed[-num_kept:]


def test_a_summary_longer_than_what_is_compressed_at_sight_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="first_sight_tokens"):
        make_router(history=HistorySummary(summary_tokens=1_000))
    with pytest.raises(ConfigurationError, match="keep_last"):
        HistorySummary(keep_last=0)


def check_calls(view: Sequence[Message], full: Sequence[Message]) -> None:
    """No result without its call, where the full view has it."""
    for messages in (full, view):
        known: set[str | None] = set()
        orphans = set()
        for message in messages:
            known |= {call.id for call in message.tool_calls or ()}
            if message.role == "tool" and message.tool_call_id not in known:
                orphans.add(message.tool_call_id)
        if messages is full:
            allowed = orphans
    assert orphans <= allowed


@settings(deadline=None)
@given(conversations, st.integers(1, 3), st.integers(20, 400), st.none() | st.integers(60, 1_500))
def test_over_random_conversations_the_promises_hold(
    messages: list[Wire], keep_last: int, high_water: int, limit: int | None
) -> None:
    history = HistorySummary(keep_last=keep_last, high_water_tokens=high_water, summary_tokens=120)

    def count(view: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        assert all("asymspec_summary" not in (message.model_extra or {}) for message in view)
        return exact_tokens(view, tools)

    policy = {"first_sight_tokens": 200, "min_part_tokens": 20, "max_verifier_tokens": limit}
    router = make_router(history=history, policy=policy, prompt_counter=count)
    try:
        routed = router.route(messages)
    except ContextOverflowError:
        assert limit is not None
        return
    assert [message.wire() for message in routed.full] == as_read(messages)
    if limit is not None:
        assert exact_tokens(routed.compressed, ()) <= limit
    check_calls(routed.compressed, routed.full)
    systems = [m for m in routed.full if m.role in ("system", "developer")]
    assert [m for m in routed.compressed if m.role in ("system", "developer")] == systems
    if routed.messages is not None:
        assert len(routed.sources) == len(routed.messages)
        assert len(routed.messages) < len(messages) + 1
    again = make_router(history=history, policy=policy, prompt_counter=count).route(messages)
    assert again == routed
