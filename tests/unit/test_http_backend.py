"""The client of a server: answers in every form, the bodies it sends, arms, token counts."""

from __future__ import annotations

from typing import Any

import pytest

from asymspec_agents.backends import ChatRequest, CompletionRequest, HTTPBackend, Usage, collect
from asymspec_agents.errors import (
    BackendError,
    ConfigurationError,
    ContextOverflowError,
    MessageError,
    ServerError,
    UnsupportedRequestError,
)
from asymspec_agents.protocol import AsymSpecReport
from tests.http_forms import USER, Form, answer, ask, every_form, http_threads
from tests.odd_server import ANSWER, Call, odd_server


@every_form
def test_every_form_gives_the_same_answer(form: Form) -> None:
    with odd_server(answer) as server:
        backend = HTTPBackend(server.url)
        response = form(backend, ask())
        backend.close()
    assert (response.content, response.finish_reason) == ("yes", "stop")
    assert response.usage == Usage(3, 1)
    assert isinstance(response.report, AsymSpecReport)
    assert response.report.accepted == 1
    assert not http_threads()


@every_form
@pytest.mark.parametrize(
    ("error", "raised"),
    [
        ({"code": "invalid_value", "message": "max_tokens=0: no"}, ConfigurationError),
        ({"code": "unsupported_value", "message": "n=2: no"}, UnsupportedRequestError),
        ({"code": "invalid_messages", "message": "messages is empty"}, MessageError),
        (
            {"code": "context_length_exceeded", "message": "", "view": "full", "num_tokens": 9, "limit": 5},
            ContextOverflowError,
        ),
        ({"code": "other", "message": "no"}, ServerError),
    ],
    ids=["value", "unsupported", "messages", "overflow", "other"],
)
def test_refusals_are_the_exceptions_of_a_local_backend(
    form: Form, error: dict[str, Any], raised: type[Exception]
) -> None:
    with odd_server(lambda call: call.reply({"error": error}, 400)) as server:
        backend = HTTPBackend(server.url)
        with pytest.raises(raised) as caught:
            form(backend, ask())
        backend.close()
    assert type(caught.value) is raised
    assert error["message"] in str(caught.value)


def test_the_body_is_the_request_and_temperature_is_always_sent() -> None:
    with odd_server(answer) as server:
        backend = HTTPBackend(server.url)
        backend.generate(ask(max_tokens=5, edits=[{"message": 0, "text": "Hi"}], extra={"user": "u"}))
        backend.close()
        (call,) = server.posts
    assert call.path == "/v1/chat/completions"
    assert call.headers["content-type"] == "application/json"
    assert call.body == {
        "model": "big",
        "messages": [USER],
        "temperature": 0,
        "max_tokens": 5,
        "user": "u",
        "asymspec": {"version": 1, "edits": [{"message": 0, "text": "Hi"}]},
    }


def test_any_text_travels_and_what_is_no_json_is_refused_here() -> None:
    odd = "\ud800 \x00 \u2028 é"
    with odd_server(answer) as server:
        backend = HTTPBackend(server.url)
        backend.generate(ChatRequest(messages=[{"role": "user", "content": odd}], request_id="ü \n/%1"))
        for value in (float("nan"), object(), {1, 2}):
            with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
                backend.generate(ask(extra={"a": value}))
        backend.close()
        (call,) = server.posts
    assert call.body["messages"][0]["content"] == odd
    assert call.headers["x-request-id"] == "%C3%BC%20%0A/%251"


def test_completions_go_to_their_own_endpoint() -> None:
    def complete(call: Call) -> None:
        choice = {"index": 0, "text": "yes", "finish_reason": "length"}
        call.reply({**ANSWER, "choices": [choice]})

    with odd_server(complete) as server:
        backend = HTTPBackend(server.url, model="mine")
        response = backend.generate(CompletionRequest(prompt=[1, 2], asymspec={"prompt": "short"}))
        backend.close()
        (call,) = server.posts
    assert (response.content, response.finish_reason) == ("yes", "length")
    assert call.path == "/v1/completions"
    assert call.body == {
        "model": "mine",
        "prompt": [1, 2],
        "temperature": 0,
        "max_tokens": None,
        "asymspec": {"version": 1, "prompt": "short"},
    }


def test_arms_ask_plainly_on_the_view_they_read() -> None:
    tools = [{"type": "function", "function": {"name": "f", "description": "long"}}]
    short_tools = [{"type": "function", "function": {"name": "f"}}]
    with odd_server(answer) as server:
        backend = HTTPBackend(server.url)
        request = ChatRequest(
            messages=[USER],
            tools=tools,
            asymspec={"edits": [{"message": 0, "text": "Hi"}], "tools": short_tools},
        )
        reports = [backend.with_arm(arm).generate(request).report for arm in ("floor", "ceiling", "drafter")]
        assert backend.with_arm("floor").generate(ChatRequest(messages=[USER])).report is None
        backend.close()
        bodies = [call.body for call in server.posts]
    assert [body["model"] for body in bodies] == ["big", "big", "small", "big"]
    assert [body["messages"][0]["content"] for body in bodies] == ["Hi", "Hello", "Hello", "Hello"]
    assert [body.get("tools") for body in bodies] == [short_tools, tools, tools, None]
    assert not any("asymspec" in body for body in bodies)
    assert [report and report.mode for report in reports] == ["floor", "ceiling", "drafter"]
    assert {report and report.verifier_prompt_tokens for report in reports} == {3}


def test_arms_decode_greedily_or_refuse_as_asymspec_does() -> None:
    with odd_server(answer) as server:
        backend = HTTPBackend(server.url).with_arm("floor")
        with pytest.raises(UnsupportedRequestError, match="temperature"):
            backend.generate(ask(temperature=0.5))
        backend.generate(
            ChatRequest(messages=[USER], temperature=0.5, asymspec={"edits": [], "on_sampling": "greedy"})
        )
        backend.generate(ChatRequest(messages=[USER], temperature=0.5))
        backend.close()
        assert [call.body["temperature"] for call in server.posts] == [0, 0.5]


def test_arms_that_no_server_has_are_refused() -> None:
    with odd_server(answer, handshake={"version": 1, "verifier": "big", "modes": ["asymspec"]}) as server:
        backend = HTTPBackend(server.url)
        with pytest.raises(ConfigurationError, match="rapid"):
            backend.with_arm("rapid")
        with pytest.raises(UnsupportedRequestError, match="no drafter"):
            backend.with_arm("drafter").generate(ask())
        backend.close()
        assert not server.posts


def test_prompts_are_counted_where_the_server_does() -> None:
    counts = iter([{"count": 7}, {"tokens": []}])
    with odd_server(lambda call: call.reply(next(counts))) as server:
        assert HTTPBackend(server.url).prompt_counter is None
    handshake = {"version": 1, "verifier": "big", "modes": ["asymspec"], "tokenize": True}
    with odd_server(lambda call: call.reply(next(counts)), handshake=handshake) as server:
        backend = HTTPBackend(server.url)
        counter = backend.prompt_counter
        assert counter is not None
        assert counter(ask().messages, ()) == 7
        with pytest.raises(BackendError, match="without a count"):
            counter(ask().messages, ())
        backend.close()
        assert server.posts[0].path == "/tokenize"
        assert server.posts[0].body == {"model": "big", "messages": [USER]}


def test_json_in_one_piece_where_a_stream_was_asked_for_is_an_error() -> None:
    with odd_server(lambda call: call.reply(ANSWER)) as server:
        backend = HTTPBackend(server.url)
        with pytest.raises(BackendError, match="application/json"):
            collect(backend.stream(ask()))
        backend.close()
