"""Shadow calls: the full view's answer beside the client's, off the client's path."""

from __future__ import annotations

import threading
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.backends.answer import ChatResponse, Usage
from asymspec_agents.gateway.answer import Call
from asymspec_agents.gateway.options import GatewayOptions, UpstreamOptions
from asymspec_agents.gateway.preparing import Prepared, both_views
from asymspec_agents.gateway.shadow import Shadow
from asymspec_agents.gateway.shadow_summary import compared
from asymspec_agents.gateway.splicing import encoded
from asymspec_agents.messages import FunctionCall, ToolCall
from asymspec_agents.protocol import AsymSpecOptions
from asymspec_agents.recording import NULL_RECORDER
from asymspec_agents.router import ContextRouter
from asymspec_agents.trace import MemoryRecorder, ShadowEvent
from tests.gateway.scripted import EVENTS, Got, Script, chunk, completion
from tests.gateway.serving import CHAT, LONG, apart, ask, eventually


def answers(got: Got) -> Script:
    """The compressed view finds the port, the full one says it in other words."""
    if "asymspec" not in got.body:
        usage = {"prompt_tokens": 900, "completion_tokens": 5}
        return Script([completion("It is port 8123", usage=usage)])
    if got.body.get("stream"):
        usage = {"prompt_tokens": 300, "completion_tokens": 4}
        pieces = [chunk({"content": "It is "}), chunk({"content": "8123"}), chunk({}, "stop", asymspec={})]
        last = b'data: {"choices":[],"usage":{"prompt_tokens":300,"completion_tokens":4}}\n\n'
        return Script([*pieces, last, b"data: [DONE]\n\n"], headers=[EVENTS])
    return Script(
        [completion("It is 8123", usage={"prompt_tokens": 300, "completion_tokens": 4}, asymspec={})]
    )


@pytest.mark.parametrize("stream", [False, True])
def test_both_answers_are_compared(stream: bool) -> None:
    recorder = MemoryRecorder()
    asked = {**LONG, "stream": True, "stream_options": {"include_usage": True}} if stream else LONG
    with apart(shadow_rate=1.0, recorder=recorder, api_keys=("k",)) as (upstream, url):
        upstream.answer = answers
        bearer = {"authorization": "Bearer k"}
        ask(url, {**asked, "x_kept": 1}, headers={**bearer, "x-request-id": "r-1"})

        def summary() -> dict[str, Any]:
            told: dict[str, Any] = httpx.get(url + "/v1/asymspec/shadow", headers=bearer).json()
            return told

        eventually(lambda: summary()["num_compared"] == 1)
        told = summary()
    main, shadow = upstream.calls
    assert shadow.body == {
        **LONG, "x_kept": 1, "temperature": 0, "cache_salt": main.body["cache_salt"]
    }  # fmt: skip
    assert shadow.header("x-request-id") == "r-1-shadow"
    assert told["num_equal"] == 0
    assert told["mean_similarity"] == pytest.approx(6 / 7)
    assert told["mean_prompt_tokens"] == 300
    assert told["mean_full_prompt_tokens"] == 900
    assert told["mean_full_completion_tokens"] == 5
    assert told["mean_elapsed_s"] > 0
    (event,) = [event for event in recorder.events if isinstance(event, ShadowEvent)]
    assert (event.request_id, event.is_equal, event.full_prompt_tokens) == ("r-1", False, 900)
    assert "8123" not in repr(recorder.events)


def test_its_failures_reach_nobody() -> None:
    def answer(got: Got) -> Script:
        return answers(got) if "asymspec" in got.body else Script([b"busy"], 500)

    with apart(shadow_rate=1.0) as (upstream, url):
        upstream.answer = answer
        assert ask(url).status_code == 200
        eventually(lambda: httpx.get(url + "/v1/asymspec/shadow").json()["num_failed"] == 1)
        metrics = httpx.get(url + "/metrics").text
    assert 'asymspec_gateway_views_total{view="both"} 1.0' in metrics


def test_it_holds_up_no_client_and_never_grows() -> None:
    go = threading.Event()

    def answer(got: Got) -> Script:
        return answers(got) if "asymspec" in got.body else Script(hangs_before=not go.is_set())

    with apart(shadow_rate=1.0, max_shadow_waiting=2) as (upstream, url):
        upstream.answer = answer
        for number in range(5):
            assert ask(url, {**CHAT, "user": str(number)}).status_code == 200
            eventually(lambda: any("asymspec" not in got.body for got in upstream.calls))
        told = httpx.get(url + "/v1/asymspec/shadow").json()
    assert (told["num_waiting"], told["num_left_out"], told["num_compared"]) == (2, 2, 0)


def test_no_rate_no_shadow() -> None:
    with apart() as (upstream, url):
        for number in range(20):
            ask(url, {**CHAT, "user": str(number)})
        assert httpx.get(url + "/v1/asymspec/shadow").json()["rate"] == 0
    assert all("asymspec" in got.body for got in upstream.calls)


def prepared(fields: dict[str, Any]) -> tuple[Call, Prepared]:
    call = Call("/v1/chat/completions", encoded(fields), fields, [], "r")
    return call, both_views(call, lambda room: ContextRouter(), AsymSpecOptions())


def test_the_share_is_that_of_the_rate_and_the_same_everywhere() -> None:
    options = GatewayOptions(upstream=UpstreamOptions("http://a"), shadow_rate=0.25)
    calls = [prepared({**CHAT, "user": str(number)}) for number in range(400)]
    drawn = [[Shadow(options, NULL_RECORDER).wants(*call) for call in calls] for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert 60 <= sum(drawn[0]) <= 140


def response(text: str, *arguments: str) -> ChatResponse:
    calls = tuple(
        ToolCall(id=str(number), function=FunctionCall(name="look", arguments=text))
        for number, text in enumerate(arguments)
    )
    return ChatResponse(text, calls, "stop", Usage(0, 0), None)


def test_calls_are_compared_as_values() -> None:
    assert compared(response("", '{"a": 1}'), response("", '{"a":1}'), 1, 2).is_equal
    assert not compared(response("", '{"a": 1}'), response("", '{"a": 2}'), 1, 2).is_equal
    assert not compared(response("", "{}"), response(""), 1, 2).is_equal
    assert compared(response("a"), response("a"), 1, 2).prompt_tokens is None


@given(first=st.text(max_size=60), second=st.text(max_size=60))
def test_similarity_is_a_share_and_whole_for_equals(first: str, second: str) -> None:
    comparison = compared(response(first), response(second), 0, 0)
    assert 0 <= comparison.similarity <= 1
    assert comparison.is_equal is (first == second)
    if first == second:
        assert comparison.similarity == 1
