"""The router's promises over random conversations."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ContextOverflowError
from asymspec_agents.messages import Message, parse_messages
from asymspec_agents.router import ContextRouter, RoutedContext, ToolDoc
from asymspec_agents.views import ViewPolicy
from asymspec_agents.views.replay import Tier
from tests.routing import (
    Exploding,
    FirstChars,
    QuarterCounter,
    Wire,
    agent_run,
    as_read,
    conversations,
    exact_tokens,
    places,
    skeleton,
    text_of,
)

POLICY = {"first_sight_tokens": 100, "min_part_tokens": 20, "headtail_tokens": 40, "compress_timeout_s": None}


def make_router(compressor: Any = None, **options: Any) -> ContextRouter:
    policy = {**POLICY, **options.pop("policy", {})}
    return ContextRouter(
        ViewPolicy(**policy), counter=QuarterCounter(), compressor=compressor or FirstChars(), **options
    )


def is_observation(text: str) -> bool:
    return text.startswith("Observation:")


def newest_user(messages: list[Wire]) -> int | None:
    """The last message with words of the user (a plain reading of the promise, for these conversations)."""
    found = None
    seen_any = False
    for index, message in enumerate(messages):
        if message["role"] == "user":
            texts = [text_of(message, part) for part in _parts(message)]
            if (
                message["content"]
                and not texts
                and seen_any
                and opens_with_observation(messages[index + 1 :])
            ):
                continue  # images of the observation
            if not seen_any or not texts or any(not is_observation(text) for text in texts):
                found = index
                seen_any = True
        elif message["role"] not in ("system", "developer"):
            seen_any = True
    return found


def opens_with_observation(messages: list[Wire]) -> bool:
    if not messages or messages[0]["role"] != "user":
        return False
    texts = [text_of(messages[0], part) for part in _parts(messages[0])]
    return bool(texts) and is_observation(texts[0])


def _parts(message: Wire) -> list[int | None]:
    return [part for _, part in places(parse_messages([message]))]


def turn_starts(messages: list[Wire]) -> list[int]:
    """Where runs of assistant messages begin."""
    roles = ["", *(message["role"] for message in messages)]
    return [index for index in range(len(messages)) if roles[index + 1] == "assistant" != roles[index]]


def check_shape(messages: list[Wire], routed: RoutedContext) -> None:
    """Promise 1, for both views."""
    messages = as_read(messages)
    given_messages = parse_messages(messages)
    for view in (routed.full, routed.compressed):
        assert [skeleton(message) for message in view] == [skeleton(message) for message in given_messages]
        assert [message.wire().keys() for message in view] == [message.keys() for message in messages]
    assert len({(edit.message, edit.part) for edit in routed.edits}) == len(routed.edits)
    assert routed.report.num_edits == len(routed.edits)


@given(conversations)
def test_only_texts_of_single_parts_change(messages: list[Wire]) -> None:
    routed = make_router().route(messages)
    check_shape(messages, routed)
    assert [message.wire() for message in routed.full] == as_read(messages)


@given(conversations, st.integers(0, 3))
def test_what_is_promised_to_stay_verbatim_stays(messages: list[Wire], keep_last: int) -> None:
    routed = make_router(policy={"keep_last": keep_last}).route(messages)
    starts = turn_starts(messages)
    window = starts[-keep_last] if 0 < keep_last <= len(starts) else (len(messages) if not keep_last else 0)
    newest = newest_user(messages)
    messages = as_read(messages)
    for index, part in places(routed.full):
        before, after = text_of(messages[index], part), text_of(routed.compressed[index], part)
        tokens = QuarterCounter().count(before)
        role = messages[index]["role"]
        is_fixed = role in ("system", "developer") or "\nCalling tools:" in before
        is_newest = index == newest
        is_short = tokens <= POLICY["first_sight_tokens"]
        if is_fixed or tokens < POLICY["min_part_tokens"]:
            assert after == before
        if is_short and (is_newest or index >= window):
            assert after == before
        if after != before:
            assert QuarterCounter().count(after) <= tokens * 0.85


@given(conversations)
def test_whatever_left_the_window_and_is_worth_it_is_compressed(messages: list[Wire]) -> None:
    routed = make_router().route(messages)
    starts = turn_starts(messages)
    window = starts[-2] if len(starts) >= 2 else 0
    for index, part in places(parse_messages(messages)[:window]):
        text = text_of(messages[index], part)
        is_result = messages[index]["role"] not in ("system", "developer", "user", "assistant")
        if is_result and len(text) >= 100:
            assert text_of(routed.compressed[index], part) != text


@given(conversations)
def test_a_rendition_never_changes_while_the_conversation_grows(messages: list[Wire]) -> None:
    router = make_router()
    calls = [*turn_starts(messages)[1:], len(messages)]
    originals = as_read(messages)
    previous: tuple[Message, ...] = ()
    for end in calls:
        compressed = router.route(messages[:end]).compressed
        for index, part in places(previous):
            before, original = text_of(previous[index], part), text_of(originals[index], part)
            if before != original:
                assert text_of(compressed[index], part) == before
        previous = compressed


@given(conversations, st.integers(60, 1_500))
def test_tiers_only_move_on_while_the_conversation_grows(messages: list[Wire], limit: int) -> None:
    router = make_router(policy={"max_verifier_tokens": limit})
    before: tuple[Tier, ...] = ()
    for end in [*turn_starts(messages)[1:], len(messages)]:
        try:
            tiers = router.route(messages[:end]).report.turn_tiers
        except ContextOverflowError:
            break
        assert all(new >= old for old, new in zip(before, tiers, strict=False))
        before = tiers


def least(messages: list[Wire]) -> list[Message]:
    """The messages with everything gone that the budget can reach, by the promise's own list."""
    newest = newest_user(messages)
    words = [part for _, part in places(parse_messages([messages[newest]]))] if newest is not None else []
    shortest = []
    for index, message in enumerate(parse_messages(as_read(messages))):
        beyond = message.role in ("system", "developer")
        content = message.content
        if isinstance(content, str):
            is_fixed = beyond or index == newest or "\nCalling tools:" in content
            content = content if is_fixed else ""
        elif isinstance(content, tuple) and not beyond:
            content = tuple(
                part.model_copy(update={"text": ""})
                if part.type == "text" and part.text and not (index == newest and number in words)
                else part
                for number, part in enumerate(content)
            )
        shortest.append(message.model_copy(update={"content": content}))
    return shortest


def attempt(router: ContextRouter, messages: list[Wire]) -> RoutedContext | ContextOverflowError:
    try:
        return router.route(messages)
    except ContextOverflowError as error:
        return error


def check_overflow(error: ContextOverflowError, view: str, limit: int, messages: list[Wire]) -> None:
    """Only what the budget cannot reach may be too much, and an ellipsis of each other text."""
    assert (error.view, error.limit) == (view, limit)
    assert error.num_tokens > limit
    assert exact_tokens(least(messages), ()) + 2 * len(places(parse_messages(messages))) > limit


limits = st.integers(1, 3_000) | st.integers(1, 300)


@given(conversations, limits)
def test_the_verifiers_budget_is_met_or_cannot_be(messages: list[Wire], limit: int) -> None:
    policy = {"max_verifier_tokens": limit}
    routed = attempt(make_router(policy=policy, prompt_counter=exact_tokens), messages)
    if isinstance(routed, ContextOverflowError):
        check_overflow(routed, "compressed", limit, messages)
        return
    check_shape(messages, routed)
    assert exact_tokens(routed.compressed, routed.compressed_tools) <= limit
    newest = newest_user(messages)
    words = places(parse_messages(messages))
    messages = as_read(messages)
    for index, part in places(routed.full):
        text = text_of(messages[index], part)
        is_fixed = messages[index]["role"] in ("system", "developer") or "\nCalling tools:" in text
        is_newest = index == newest and QuarterCounter().count(text) <= POLICY["first_sight_tokens"]
        if is_fixed or (is_newest and (index, part) in words):
            assert text_of(routed.compressed[index], part) == text


@given(conversations, limits)
def test_the_drafters_budget_is_met_or_cannot_be(messages: list[Wire], limit: int) -> None:
    free = make_router().route(messages)
    policy = {"max_drafter_tokens": limit}
    routed = attempt(make_router(policy=policy, prompt_counter=exact_tokens), messages)
    if isinstance(routed, ContextOverflowError):
        check_overflow(routed, "full", limit, messages)
        return
    check_shape(messages, routed)
    assert exact_tokens(routed.full, ()) <= limit
    assert routed.compressed == free.compressed
    if max(exact_tokens(free.full, ()), free.report.full_tokens) <= limit:
        assert routed.full == free.full


@given(conversations)
def test_a_compressor_that_fails_aborts_nothing(messages: list[Wire]) -> None:
    router = make_router(Exploding())
    routed = router.route(messages)
    check_shape(messages, routed)
    assert router.route(messages) == routed
    assert routed.report.num_degraded >= routed.report.num_edits


@given(conversations, conversations)
def test_what_was_routed_before_does_not_matter(messages: list[Wire], others: list[Wire]) -> None:
    used = make_router()
    used.route(others)
    used.route(messages[:3])
    assert used.route(messages) == make_router().route(messages)


@given(st.lists(st.text("abc ", min_size=1, max_size=30), max_size=4), st.text("abc \ud800", max_size=200))
def test_docs_are_replaced_and_nothing_else(texts: list[str], prompt: str) -> None:
    docs = [ToolDoc(text, f"[{index}]") for index, text in enumerate(texts)]
    routed = make_router().route([{"role": "system", "content": prompt}], tool_docs=docs)
    shown = str(routed.compressed[0].content)
    for index, text in enumerate(texts):
        shown = shown.replace(f"[{index}]", text)
    assert shown == prompt


@pytest.mark.parametrize(
    "seed",
    [
        "x",
        "\ud800",
        "<|endoftext|> ",
        pytest.param("列車", marks=pytest.mark.full),
        pytest.param('{"id": 1.0}\n', marks=pytest.mark.full),
    ],
)
def test_an_output_of_five_megabytes(seed: str) -> None:
    text = seed * (5_000_000 // len(seed))
    messages = agent_run(1)
    messages[-1]["content"] = text
    router = ContextRouter(ViewPolicy(max_verifier_tokens=3_000, compress_timeout_s=None))
    routed = router.route(messages)
    check_shape(messages, routed)
    assert text_of(routed.full[-1], None) == text
    assert routed.report.compressed_tokens <= 3_000
    assert routed.report.num_degraded == 0


SCRIPT = """
import hashlib, json, sys
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy
for messages in json.load(sys.stdin):
    for limit in (None, 4_000):
        routed = ContextRouter(ViewPolicy(max_verifier_tokens=limit)).route(messages)
        wire = json.dumps([message.wire() for message in routed.compressed], sort_keys=True)
        print(routed.report.num_edits, hashlib.sha256(wire.encode()).hexdigest())
"""


def varied_run() -> list[Wire]:
    """A run whose results are of every kind the compressors tell apart."""
    kinds = [
        "\n".join(json.dumps({"id": i, "name": f"n{i}", "score": i / 7}) for i in range(200)),
        json.dumps([{"row": i, "city": f"city {i % 17}"} for i in range(300)]),
        "".join(f"def f{i}(a, b={i}):\n    '''Does {i}.'''\n    return a * b + {i}\n\n" for i in range(120)),
        "".join(
            f"2026-11-29 10:{i % 60:02d} {'ERROR' if i % 41 == 0 else 'INFO'} step {i}\n" for i in range(400)
        ),
        "id,city,price\n" + "".join(f"{i},city {i},{i * 3}\n" for i in range(400)),
        "\n\n".join(f"Paragraph {i} tells of city {i % 13} and its trains. It is long." for i in range(150)),
        "列車は十時に出ます。駅は遠いです。" * 200,
        "".join(f"<p>Row {i} of <b>the</b> page</p>\n" for i in range(300)),
    ]
    messages = agent_run(len(kinds) + 2)
    for index, text in enumerate(kinds):
        messages[3 + 2 * index]["content"] = text + "\ud800"
    return messages


def test_a_fresh_process_computes_the_same_views() -> None:
    conversations_given = json.dumps([varied_run(), agent_run(12)])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=conversations_given,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    expected = []
    for messages in json.loads(conversations_given):
        for limit in (None, 4_000):
            routed = ContextRouter(ViewPolicy(max_verifier_tokens=limit)).route(messages)
            wire = json.dumps([message.wire() for message in routed.compressed], sort_keys=True)
            expected.append(f"{routed.report.num_edits} {hashlib.sha256(wire.encode()).hexdigest()}\n")
    assert outputs == {"".join(expected)}
    assert all(not line.startswith("0 ") for line in expected)
