"""The view policy's limits, and what the compressed view shows of each kind of text."""

from __future__ import annotations

from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import parse_messages
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy
from asymspec_agents.views.replay import Tier
from asymspec_agents.views.turns import read_history
from tests.routing import FirstChars, QuarterCounter, Wire, agent_run, call, places, text_of


def make_router(**policy: Any) -> ContextRouter:
    return ContextRouter(ViewPolicy(**policy), counter=QuarterCounter(), compressor=FirstChars())


def shortened(router: ContextRouter, messages: list[Wire]) -> set[tuple[int, int | None]]:
    """The places whose text the compressed view does not show in full."""
    return {(edit.message, edit.part) for edit in router.route(messages).edits}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("keep_last", -1),
        ("keep_last", "2"),
        ("keep_last", True),
        ("first_sight_tokens", 0),
        ("first_sight_tokens", 10.5),
        ("ratio", "0.3"),
        ("high_water", None),
        ("max_verifier_tokens", 1e6),
        ("compress_timeout_s", float("nan")),
        ("tool_signatures", 1),
        ("min_part_tokens", -1),
        ("min_gain", 1.0),
        ("min_gain", float("nan")),
        ("ratio", 0.0),
        ("ratio", 1.0),
        ("max_rendition_tokens", 0),
        ("headtail_tokens", 0),
        ("max_verifier_tokens", 0),
        ("max_drafter_tokens", -5),
        ("high_water", 1.5),
        ("low_water", 0.95),
        ("on_drafter_overflow", "drop"),
        ("compress_timeout_s", 0.0),
        ("protected", ("(",)),
        ("protected", ("",)),
        ("observation_markers", ("",)),
        ("call_markers", "Calling tools:"),
        ("call_patterns", ("(",)),
    ],
)
def test_a_wrong_option_is_named_with_its_value_and_limit(field: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=field) as caught:
        ViewPolicy(**{field: value})
    assert repr(value) in str(caught.value) or repr(value[0]) in str(caught.value)  # type: ignore[index]


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(TypeError, match="keep_first"):
        ViewPolicy(keep_first=1)  # type: ignore[call-arg]


def test_turns_are_compressed_when_they_leave_the_window() -> None:
    messages = agent_run(5)
    assert shortened(make_router(), messages) == {(3, None), (5, None), (7, None)}
    assert shortened(make_router(keep_last=0), messages) == {(3 + 2 * turn, None) for turn in range(5)}
    assert shortened(make_router(keep_last=9), messages) == set()


def test_a_long_result_is_compressed_at_first_sight_a_short_one_never() -> None:
    messages = agent_run(1, result_chars=4_004)
    assert shortened(make_router(), messages) == {(3, None)}
    messages = agent_run(1, result_chars=4_000)
    assert shortened(make_router(), messages) == set()
    messages = agent_run(5, result_chars=796)  # 199 tokens
    assert shortened(make_router(), messages) == set()


def test_a_rendition_is_bounded_however_long_its_original() -> None:
    routed = make_router().route(agent_run(1, result_chars=400_000))
    assert routed.report.changes[0].tokens == 2_000


def test_a_rendition_that_saves_too_little_is_not_used() -> None:
    messages = agent_run(5)
    assert shortened(make_router(ratio=0.86, min_gain=0.15), messages) == set()
    assert shortened(make_router(ratio=0.84, min_gain=0.15), messages) != set()


def test_assistant_texts_are_compressed_calls_are_not() -> None:
    thought, calling = "I think. " * 200, "I think. " * 200 + "\nCalling tools:\n[{'id': 'c'}]"
    messages = [{"role": "user", "content": "Go"}]
    for text in (thought, calling, "Calling tools:\n" + thought, "x", "y"):
        messages += [
            {"role": "assistant", "content": text},
            {"role": "user", "content": "Observation:\nfine"},
        ]
    assert shortened(make_router(), messages) == {(1, None)}


def test_an_answer_split_into_several_assistant_messages_is_one_turn() -> None:
    messages = [{"role": "user", "content": "Go"}]
    for _ in range(3):
        messages += [
            {"role": "assistant", "content": "I look."},
            {"role": "assistant", "content": "Calling tools:\n[]"},
            {"role": "user", "content": "Observation:\n" + "row\n" * 250},
        ]
    assert shortened(make_router(), messages) == {(3, None)}


def test_a_system_prompt_stays_whatever_its_length() -> None:
    long = "Words of mine. " * 600
    messages = [{"role": "system", "content": long}, {"role": "user", "content": "Well?"}]
    assert shortened(make_router(), messages) == set()


def test_a_long_message_of_the_user_is_compressed_at_first_sight_and_keeps_its_ends() -> None:
    rows = "".join(f"Row {number} says nothing of note.\n\n" for number in range(900))
    text = f"Answer from the rows below.\n\n{rows}Which row mentions the harbour?"
    messages = [{"role": "user", "content": text}]
    router = ContextRouter(counter=QuarterCounter())
    first = router.route(messages).compressed[0].texts()[0]
    assert first.startswith("Answer from the rows below.\n\n")
    assert first.endswith("Which row mentions the harbour?")
    assert len(first) < 0.5 * len(text)
    messages += [{"role": "assistant", "content": "None."}, {"role": "user", "content": "Sure?"}]
    assert router.route(messages).compressed[0].texts()[0] == first  # frozen once compressed


def test_what_a_user_asks_at_either_end_is_what_the_middle_is_searched_for() -> None:
    rows = [f"Section {number} is about {number} other things.\n\n" for number in range(900)]
    rows[417] = "Section 417 says that the ferry to Skagen leaves at noon.\n\n"
    text = "".join(rows) + "When does the ferry to Skagen leave?"
    routed = ContextRouter(counter=QuarterCounter()).route([{"role": "user", "content": text}])
    assert "leaves at noon" in routed.compressed[0].texts()[0]


def test_short_user_messages_stay_without_a_budget() -> None:
    messages = []
    for _ in range(6):
        messages += [{"role": "user", "content": "Do it. " * 300}, {"role": "assistant", "content": "Done."}]
    assert shortened(make_router(), messages) == set()


def test_a_long_text_beside_a_shorter_one_of_the_user_is_an_attachment() -> None:
    compressor = FirstChars()
    router = ContextRouter(counter=QuarterCounter(), compressor=compressor)
    content = [{"type": "text", "text": "row\n" * 2_000}, {"type": "text", "text": "How many rows?"}]
    routed = router.route([{"role": "user", "content": content}])
    assert [(edit.message, edit.part) for edit in routed.edits] == [(0, 0)]
    assert "How many rows?" in compressor.queries[0]
    # It stays as it is when the message is no longer the newest.
    grown = router.route([{"role": "user", "content": content}, {"role": "user", "content": "Well?"}])
    assert grown.compressed[0] == routed.compressed[0]


def test_the_query_is_the_task_and_the_call() -> None:
    compressor = FirstChars()
    router = ContextRouter(ViewPolicy(keep_last=0), counter=QuarterCounter(), compressor=compressor)
    result = "row\n" * 300
    router.route(
        [
            {"role": "user", "content": "TASK"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [call("a", "first"), call("b", "other", {"q": 2}), call("a", "second")],
            },
            {"role": "tool", "tool_call_id": "a", "content": "1" + result},
            {"role": "tool", "tool_call_id": "b", "content": "2" + result},
            {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "3" + result}] * 2},
            {"role": "tool", "tool_call_id": "unknown", "content": "4" + result},
            {"role": "user", "content": "NEXT TASK"},
            {"role": "assistant", "content": "Calling tools:\n[{'name': 'third'}]"},
            {"role": "user", "content": "Observation:\n" + result},
        ]
    )
    assert compressor.queries == [
        'TASK\nfirst {"q": "x"}',
        'TASK\nother {"q": 2}',
        'TASK\nsecond {"q": "x"}',
        'TASK\nfirst {"q": "x"}\nother {"q": 2}\nsecond {"q": "x"}',
        "TASK\nCalling tools:\n[{'name': 'third'}]",
    ]


def test_a_huge_task_gives_a_bounded_query() -> None:
    compressor = FirstChars()
    router = ContextRouter(counter=QuarterCounter(), compressor=compressor)
    messages = [{"role": "user", "content": "START" + "x" * 10**6 + "END"}, *agent_run(1, 8_000)[2:]]
    router.route(messages)
    assert len(compressor.queries[0]) < 5_000
    assert "START" in compressor.queries[0]
    assert "END" in compressor.queries[0]


def user_messages(messages: list[dict[str, object]]) -> tuple[int, ...]:
    policy = ViewPolicy()
    history = read_history(parse_messages(messages), policy.observation_markers, policy.call_markers)
    return history.user_messages


def test_images_sent_before_their_observation_are_no_user_message() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    messages = [
        {"role": "user", "content": "Describe it."},
        {"role": "assistant", "content": "Calling tools:\n[]"},
        {"role": "user", "content": [image]},
        {"role": "user", "content": "Observation:\nSee image."},
    ]
    assert user_messages(messages) == (0,)  # the task is still the newest
    messages[3] = {"role": "assistant", "content": "Nice."}
    assert user_messages(messages) == (0, 2)


def test_an_observation_needs_something_to_observe() -> None:
    assert user_messages([{"role": "user", "content": "Observation:\nrow"}]) == (0,)


def test_results_in_a_user_message_are_told_from_the_users_words() -> None:
    result = "Observation:\n" + "row\n" * 2_000
    messages = [
        {"role": "user", "content": "Task"},
        {"role": "assistant", "content": "Calling tools:\n[]"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": result},
                {"type": "text", "text": "Now plan."},
            ],
        },
    ]
    assert shortened(make_router(), messages) == {(2, 0)}


def test_a_protected_span_keeps_its_text_whole_until_the_budget_presses() -> None:
    messages = agent_run(4)
    key = "KEY-4711"
    messages[3]["content"] += key
    assert shortened(make_router(protected=(r"KEY-\d+",)), messages) == {(5, None)}
    pressed = make_router(protected=(r"KEY-\d+",), max_verifier_tokens=1_900, low_water=0.89)
    routed = pressed.route(messages)
    assert routed.report.turn_tiers[0] is Tier.HEAD_AND_TAIL
    assert len(text_of(routed.compressed[3], None)) < 500


def test_no_text_no_edit() -> None:
    assert shortened(make_router(), []) == set()
    messages = [{"role": "tool", "content": None}, {"role": "assistant"}, {"role": "user", "content": []}]
    routed = make_router(max_verifier_tokens=1_000, max_drafter_tokens=1_000).route(messages)
    assert routed.edits == ()
    assert places(routed.compressed) == []
