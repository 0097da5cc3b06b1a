"""The adaptive ratio: what moves it, what never moves again, and that its state travels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.router import ContextRouter, RoutedContext
from asymspec_agents.trace import MemoryRecorder
from asymspec_agents.views import RateControl, RateState, ViewPolicy
from asymspec_agents.views.rate import RateStep
from tests.routing import FirstChars, QuarterCounter, agent_run, conversations

CONTROL = RateControl(min_answers=1, smoothing=1.0)


def report(divergence: float = 0.0, accepted: int = 9, drafted: int = 10, **fields: Any) -> AsymSpecReport:
    return AsymSpecReport(mean_divergence=divergence, accepted=accepted, drafted=drafted, **fields)


def make_router() -> ContextRouter:
    policy = ViewPolicy(first_sight_tokens=100, min_part_tokens=20, compress_timeout_s=None)
    return ContextRouter(policy, counter=QuarterCounter(), compressor=FirstChars())


def test_divergence_compresses_less_and_idleness_more_within_bounds() -> None:
    less = more = RateState()
    for turn in range(1, 12):
        less = CONTROL.after(less, report(0.5), num_turns=turn)
        more = CONTROL.after(more, report(0.0), num_turns=turn)
    assert [step.ratio for step in less.steps] == [0.45, 0.6]
    assert [step.ratio for step in more.steps] == [0.2, 0.15]
    assert less.steps[0].from_turn == 1
    assert less.ratio(0, 0.3) == 0.3
    assert less.ratio(10**6, 0.3) == 0.6


@pytest.mark.parametrize(
    "answer",
    [
        None,
        report(0.5, drafted=0, accepted=0),
        report(0.5, fallback="a stop string"),
        report(float("nan")),
        report(5.0),
        report(0.5, accepted=11),
        report(0.05),
        report(0.0, accepted=1),
    ],
    ids=["none", "no drafts", "fallback", "nan", "too large", "more than drafted", "between", "refused"],
)
def test_what_is_no_evidence_or_between_the_thresholds_moves_nothing(answer: AsymSpecReport | None) -> None:
    assert CONTROL.after(RateState(), answer, num_turns=3).steps == ()


def test_one_odd_answer_does_not_move_the_ratio_and_moves_are_apart() -> None:
    control = RateControl()
    state = RateState()
    moves = []
    for turn in range(1, 30):
        state = control.after(state, report(0.04 if turn != 5 else 0.2), num_turns=turn)
    assert state.steps == ()
    for turn in range(30, 50):
        before, state = state, control.after(state, report(0.5), num_turns=turn)
        if state.steps != before.steps:
            moves.append(turn)
    assert len(moves) == 2
    assert moves[1] - moves[0] >= control.min_answers


def test_each_answer_leaves_an_event_that_says_why() -> None:
    recorder = MemoryRecorder()
    state = CONTROL.after(RateState(), report(0.5), num_turns=4, recorder=recorder)
    CONTROL.after(state, None, num_turns=5, recorder=recorder)
    moved, held = recorder.events
    assert (moved.event, moved.reason, moved.ratio_before, moved.ratio) == ("rate", "divergence", 0.3, 0.45)
    assert moved.from_turn == 4
    assert (held.reason, held.ratio) == ("no evidence", 0.45)


@pytest.mark.parametrize(
    "values",
    [
        {"steps": [[3, 0.3], [3, 0.4]]},
        {"steps": [[0, 1.5]]},
        {"steps": [["a", 0.5]]},
        {"steps": 7},
        {"num_turns": -1},
        {"divergence": 2.0},
        {"acceptance": float("nan")},
        {"unknown": 1},
    ],
)
def test_a_malformed_state_is_a_configuration_error(values: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="rate"):
        RateState.of(values)


@pytest.mark.parametrize(
    "options",
    [{"min_ratio": 0.5}, {"max_ratio": 0.2}, {"factor": 1.0}, {"low_divergence": 0.2}, {"min_answers": 0}],
)
def test_a_control_out_of_its_bounds_is_a_configuration_error(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        RateControl(**options)


answers = st.lists(
    st.tuples(st.integers(0, 12), st.floats(0, 0.69), st.integers(0, 10)),
    max_size=12,
)


@given(answers)
def test_the_past_stays_as_it_was_and_the_bounds_hold(given_answers: list[tuple[int, float, int]]) -> None:
    state, seen = RateState(), 0
    for num_turns, divergence, accepted in given_answers:
        seen = max(seen, num_turns)
        before = state.seen(num_turns)
        state = CONTROL.after(state, report(divergence, accepted), num_turns=num_turns)
        assert all(state.ratio(turn, 0.3) == before.ratio(turn, 0.3) for turn in range(seen))
        assert CONTROL.min_ratio <= state.ratio(10**6, 0.3) <= CONTROL.max_ratio
        assert RateState.of(json.loads(json.dumps(state.wire()))) == state
        cut = state.without_turns(3)
        assert all(cut.ratio(turn, 0.3) == state.ratio(turn + 3, 0.3) for turn in range(20))


@given(conversations, st.lists(st.floats(0, 0.69), min_size=30, max_size=30))
def test_renditions_stay_frozen_while_the_ratio_moves(
    messages: list[dict[str, Any]], divergences: list[float]
) -> None:
    """The growing conversation, a branch of it, and the same call again, under one moving state."""
    starts = [
        index
        for index, message in enumerate(messages)
        if message["role"] == "assistant" and (index == 0 or messages[index - 1]["role"] != "assistant")
    ]
    router, state = make_router(), RateState()
    before: RoutedContext | None = None
    for end, divergence in zip([*starts, len(messages)], divergences, strict=False):
        routed = router.route(messages[:end], rate=state)
        assert make_router().route(messages[:end], rate=RateState.of(state.wire())) == routed
        if before is not None:
            texts = {(edit.message, edit.part): edit.text for edit in routed.edits}
            for edit in before.edits:
                assert texts[edit.message, edit.part] == edit.text
        state = CONTROL.after(state, report(divergence), num_turns=routed.report.num_turns)
        state = CONTROL.after(state, report(divergence), num_turns=0)  # another list, of another agent
        before = routed


def test_later_turns_take_the_new_ratio_and_earlier_ones_keep_theirs() -> None:
    messages = agent_run(8)
    state = RateState(steps=(RateStep(3, 0.6),), num_turns=3)
    plain, moved = make_router().route(messages), make_router().route(messages, rate=state)
    by_message = {change.message: change.tokens for change in plain.report.changes}
    for change in moved.report.changes:
        turn = (change.message - 3) // 2
        grew = change.tokens / by_message[change.message]
        assert grew == pytest.approx(2.0 if turn >= 3 else 1.0, rel=0.02)
