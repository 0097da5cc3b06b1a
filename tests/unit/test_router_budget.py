"""Both budgets: met hard, in tiers that come whole, with hysteresis, counted exactly near the limit."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from asymspec_agents.errors import ContextOverflowError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.router import ContextRouter, RoutedContext
from asymspec_agents.views import ViewPolicy
from asymspec_agents.views.replay import Tier
from tests.routing import FirstChars, QuarterCounter, agent_run, exact_tokens


def make_router(prompt_counter: Any = None, **policy: Any) -> ContextRouter:
    return ContextRouter(
        ViewPolicy(**policy),
        counter=QuarterCounter(),
        compressor=FirstChars(),
        prompt_counter=prompt_counter,
    )


class CountingTemplate:
    """The exact count, and how often it was asked for."""

    def __init__(self) -> None:
        self.num_calls = 0

    def __call__(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        self.num_calls += 1
        return exact_tokens(messages, tools)


def common_prefix(before: RoutedContext, after: RoutedContext) -> int:
    """How many first messages two compressed views share."""
    pairs = list(zip(before.compressed, after.compressed, strict=False))
    return next((index for index, (one, other) in enumerate(pairs) if one != other), len(pairs))


def test_old_turns_move_on_whole_and_oldest_first() -> None:
    for limit in range(600, 6_000, 100):
        routed = make_router(max_verifier_tokens=limit).route(agent_run(10))
        tiers = routed.report.turn_tiers
        assert list(tiers) == sorted(tiers, reverse=True)
        assert routed.report.compressed_tokens <= limit


def test_the_window_gives_way_only_after_all_old_turns() -> None:
    kept, squeezed = 0, 0
    for limit in range(400, 3_000, 50):
        tiers = make_router(max_verifier_tokens=limit).route(agent_run(6)).report.turn_tiers
        if max(tiers[4:]) > Tier.VERBATIM:
            squeezed += 1
            assert min(tiers[:4]) >= Tier.MARKER
            assert tiers[4] >= tiers[5]
        else:
            kept += 1
    assert min(kept, squeezed) > 10


def test_between_moves_a_growing_conversation_keeps_its_prefix() -> None:
    """At most the turn that left the window changes, but for rare calls that move many turns at once."""
    router = make_router(max_verifier_tokens=6_000)
    messages = agent_run(60)
    views = [router.route(messages[: 2 + 2 * turn]) for turn in range(1, 61)]
    num_moves = 0
    for turn, (before, after) in enumerate(pairwise(views), start=1):
        oldest_kept = 2 + 2 * max(0, turn - 2)
        if common_prefix(before, after) < oldest_kept:
            num_moves += 1
            moved = sum(
                old < new for old, new in zip(before.report.turn_tiers, after.report.turn_tiers, strict=False)
            )
            assert moved > 3
    assert 1 <= num_moves <= 12


def test_an_overflow_says_by_how_much_and_of_what() -> None:
    messages = [{"role": "system", "content": "x" * 4_000}, {"role": "user", "content": "y" * 400}]
    with pytest.raises(ContextOverflowError, match="compressed view") as caught:
        make_router(max_verifier_tokens=1_000).route(messages)
    assert caught.value.view == "compressed"
    assert caught.value.limit == 1_000
    assert 1_100 <= caught.value.num_tokens <= 1_200


def test_beyond_the_reach_of_the_budget_is_only_what_the_promise_names() -> None:
    messages = agent_run(30)
    for index in range(40):
        messages.insert(2, {"role": "user", "content": f"Old words number {index}, many of them"})
        messages.insert(3, {"role": "assistant", "content": "I said something rather long about it."})
    template = CountingTemplate()
    least = exact_tokens(
        [
            Message(**{**message, "content": "…"} if message.get("content") else message)
            for message in messages
        ],
        [],
    )
    routed = make_router(template, max_verifier_tokens=least + 60).route(messages)
    assert routed.report.is_exact
    assert routed.report.compressed_tokens <= least + 60
    assert template.num_calls <= 4


def test_the_first_user_message_outlives_other_old_ones() -> None:
    messages = [{"role": "user", "content": "The task. " * 60}]
    for _ in range(9):
        messages += [
            {"role": "assistant", "content": "Yes."},
            {"role": "user", "content": "More words. " * 60},
        ]
    routed = make_router(max_verifier_tokens=1_600).route(messages)
    shortened = {edit.message for edit in routed.edits}
    assert 0 not in shortened
    assert 2 in shortened
    assert 18 not in shortened
    routed = make_router(max_verifier_tokens=500).route(messages)
    assert 0 in {edit.message for edit in routed.edits}


def test_a_template_is_counted_only_near_the_limit_and_its_count_is_met() -> None:
    template = CountingTemplate()
    router = make_router(template, max_verifier_tokens=100_000)
    assert not router.route(agent_run(6)).report.is_exact
    assert template.num_calls == 0
    for limit in range(900, 5_000, 150):
        template.num_calls = 0
        routed = make_router(template, max_verifier_tokens=limit).route(agent_run(6))
        assert exact_tokens(routed.compressed, ()) <= limit
        assert routed.report.compressed_tokens <= limit
        assert template.num_calls <= 4


def test_a_template_that_fails_leaves_the_estimate() -> None:
    def refuses(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        raise ValueError("roles must alternate")

    routed = make_router(refuses, max_verifier_tokens=2_000).route(agent_run(6))
    assert not routed.report.is_exact
    assert routed.report.compressed_tokens <= 2_000


def test_a_template_that_fails_on_a_shorter_view_leaves_its_estimate() -> None:
    counts = iter([10_000])
    routed = make_router(lambda messages, tools: next(counts), max_verifier_tokens=2_000).route(agent_run(6))
    assert not routed.report.is_exact
    assert routed.report.compressed_tokens <= 2_000


def test_an_exact_overflow_carries_the_exact_count() -> None:
    messages = [{"role": "user", "content": "y" * 3_000}]
    with pytest.raises(ContextOverflowError) as caught:
        make_router(exact_tokens, max_verifier_tokens=900).route(messages)
    assert caught.value.num_tokens == exact_tokens([Message(**messages[0])], ())


def test_tools_count_against_the_budget() -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {"enum": ["x" * 4_000]}}}
    make_router(max_verifier_tokens=900).route(agent_run(4))
    with pytest.raises(ContextOverflowError):
        make_router(max_verifier_tokens=900).route(agent_run(4), [tool])


def test_the_full_view_is_cut_oldest_result_first_and_keeps_both_ends() -> None:
    messages = agent_run(6)
    messages[3]["content"] = "HEAD" + messages[3]["content"] + "TAIL"
    routed = make_router(max_drafter_tokens=3_100).route(messages)
    cut = [change.message for change in routed.report.drafter_cuts]
    assert cut == [3, 5, 7]
    assert routed.report.full_tokens <= 3_100
    kept = str(routed.full[3].content)
    assert kept.startswith("HEAD")
    assert "TAIL" in kept.splitlines()[-2]  # above the size of what was left out
    assert routed.full[8:] == make_router().route(messages).full[8:]


def test_one_huge_result_keeps_as_much_as_fits() -> None:
    routed = make_router(max_drafter_tokens=10_000).route(agent_run(1, result_chars=400_000))
    assert 7_000 <= routed.report.full_tokens <= 9_100


def test_the_compressed_view_does_not_depend_on_the_drafters_limit() -> None:
    messages = agent_run(6)
    free, bound = make_router().route(messages), make_router(max_drafter_tokens=1_500).route(messages)
    assert bound.compressed == free.compressed
    assert bound.full != free.full


def test_a_cut_full_view_stays_cut_as_it_was() -> None:
    router = make_router(max_drafter_tokens=6_000)
    messages = agent_run(40)
    views = [router.route(messages[: 2 + 2 * turn]).full for turn in range(1, 41)]
    changes = [turn for turn, (before, after) in enumerate(pairwise(views)) if after[: len(before)] != before]
    assert 1 <= len(changes) <= 12


def test_everything_else_of_the_full_view_follows_when_results_are_not_enough() -> None:
    messages = agent_run(3)
    for _ in range(5):
        messages += [
            {"role": "user", "content": "My words. " * 100},
            {"role": "assistant", "content": "So. " * 200},
        ]
    for limit in (1_500, 1_000, 620):
        routed = make_router(max_drafter_tokens=limit).route(messages)
        assert routed.report.full_tokens <= limit
    with pytest.raises(ContextOverflowError, match="full view"):
        make_router(max_drafter_tokens=200).route(messages)


def test_a_drafter_overflow_can_be_an_error() -> None:
    router = make_router(max_drafter_tokens=3_000, on_drafter_overflow="raise")
    assert router.route(agent_run(4)).report.drafter_cuts == ()
    with pytest.raises(ContextOverflowError, match="truncate") as caught:
        router.route(agent_run(8))
    assert caught.value.view == "full"


@pytest.mark.parametrize("ratio", [0.7, 1.0, 1.3, 1.7])
def test_an_estimate_that_is_off_makes_no_turn_come_and_go(ratio: float) -> None:
    def template(messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int:
        texts = sum(-(-len(text) // 4) for message in messages for text in message.texts())
        return int(ratio * (texts + 20 * len(messages)))

    router = make_router(template, max_verifier_tokens=5_000)
    messages = agent_run(30)
    before: tuple[Tier, ...] = ()
    num_moves = 0
    for turn in range(1, 31):
        routed = router.route(messages[: 2 + 2 * turn])
        assert template(routed.compressed, ()) <= 5_000
        tiers = routed.report.turn_tiers
        assert all(new >= old for old, new in zip(before, tiers, strict=False))
        num_moves += any(new > max(old, Tier.COMPRESSED) for old, new in zip(before, tiers, strict=False))
        before = tiers
    assert 1 <= num_moves < 20


def test_a_turn_under_pressure_shows_what_was_asked_for_and_its_user_both_ends() -> None:
    pytest.importorskip("bm25s")
    messages = agent_run(9)
    for index in range(3, len(messages), 2):
        filler = [f"Nothing of note happened in week {week} of the trial." for week in range(60)]
        filler[30] = f"The train to Rome leaves at {index}:15 from platform {index}."
        messages[index]["content"] = "\n".join(filler)
    policy = ViewPolicy(max_verifier_tokens=2_900, low_water=0.89)
    router = ContextRouter(policy, counter=QuarterCounter())
    routed = router.route(messages)
    shortened = [c for c in routed.report.changes if c.tier is Tier.HEAD_AND_TAIL]
    assert shortened
    for change in shortened:
        assert change.tokens <= ViewPolicy().headtail_tokens
        assert f"leaves at {change.message}:15" in str(routed.compressed[change.message].content)
