"""Streamed answers: chunks, usage, keepalives, errors in mid-stream, and clients that leave."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from asymspec_agents.backends import (
    Backend,
    Capabilities,
    ChatDelta,
    ScriptedBackend,
    Usage,
    scripted_response,
)
from asymspec_agents.backends.request import AnyRequest
from asymspec_agents.errors import BackendError, ContextOverflowError
from asymspec_agents.messages import FunctionCall, ToolCall

from .serving import CHAT, WAIT_S, HeldBackend, ask_and_leave, eventually, get, post, serving

PATH = "/v1/chat/completions"
STREAM = {**CHAT, "stream": True}


def events_of(text: str) -> list[Any]:
    """The data of every event; comments are left out, and nothing else may stand between events."""
    events = []
    for block in text.split("\n\n"):
        if block and not block.startswith(":"):
            name, _, data = block.partition(": ")
            assert name == "data"
            events.append(data if data == "[DONE]" else json.loads(data))
    return events


def test_a_chat_stream_has_role_text_finish_reason_and_usage_in_this_order() -> None:
    with serving(HeldBackend(is_held=False)) as url:
        body = {**STREAM, "stream_options": {"include_usage": True}, "asymspec": {"edits": []}}
        answer = post(url + PATH, json=body, headers={"x-request-id": "abc"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    *chunks, done = events_of(answer.text)
    assert done == "[DONE]"
    assert {(chunk["id"], chunk["object"], chunk["model"]) for chunk in chunks} == {
        ("chatcmpl-abc", "chat.completion.chunk", "held")
    }
    first, *words, last, usage = chunks
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": ""}
    assert [word["choices"][0]["delta"] for word in words] == [
        {"content": "one "},
        {"content": "two "},
        {"content": "three "},
    ]
    assert {chunk["choices"][0]["finish_reason"] for chunk in (first, *words)} == {None}
    assert (last["choices"][0]["delta"], last["choices"][0]["finish_reason"]) == ({}, "stop")
    assert last["asymspec"]["accepted"] == 3
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 10
    assert usage["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    assert not any("asymspec" in chunk for chunk in (first, *words, usage))


def test_a_text_stream_and_one_without_usage() -> None:
    with serving(HeldBackend(is_held=False)) as url:
        answer = post(f"{url}/v1/completions", json={"prompt": "a", "stream": True})
    *chunks, done = events_of(answer.text)
    assert done == "[DONE]"
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == "one two three "
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert not any("usage" in chunk or "asymspec" in chunk for chunk in chunks)


def test_tool_calls_are_numbered_through() -> None:
    calls = [ToolCall(id=str(n), function=FunctionCall(name="f", arguments='{"a": 1}')) for n in range(2)]
    with serving(ScriptedBackend([scripted_response("", tool_calls=calls)] * 2)) as url:
        chunks = events_of(post(url + PATH, json=STREAM).text)[:-1]
        message = post(url + PATH, json=CHAT).json()["choices"][0]["message"]
    deltas = [call for chunk in chunks for call in chunk["choices"][0]["delta"].get("tool_calls", ())]
    assert [(call["index"], call["id"], call["type"]) for call in deltas] == [
        (0, "0", "function"),
        (1, "1", "function"),
    ]
    assert message["content"] is None
    assert [call["id"] for call in message["tool_calls"]] == ["0", "1"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_silent_stream_sends_comments_and_words_come_as_they_are_made() -> None:
    backend = HeldBackend()
    with (
        serving(backend, keepalive_s=0.02) as url,
        httpx.stream("POST", url + PATH, json=STREAM, timeout=WAIT_S) as answer,
    ):
        pieces = answer.iter_text()
        seen = ""
        while seen.count(": waiting\n\n") < 3:
            seen += next(pieces)
        assert events_of(seen)[0]["choices"][0]["delta"] == {"role": "assistant", "content": ""}
        backend.let_go()
        while "one " not in seen:
            seen += next(pieces)
        backend.let_go(2)
        seen += "".join(pieces)
    assert [e["choices"][0]["delta"].get("content") for e in events_of(seen)[1:-2]] == [
        "one ",
        "two ",
        "three ",
    ]
    assert backend.ends == ["whole"]


class Failing(Backend):
    """Says something, then fails."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("failing", None)

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        yield ChatDelta(content="some")
        raise self.error


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (BackendError("no memory \ud800"), "engine_error", "server_error"),
        (ValueError("a secret"), "internal_error", "server_error"),
        (TimeoutError("slow"), "internal_error", "server_error"),  # no silence, which comments would fill
        (StopIteration(), "internal_error", "server_error"),
        (KeyboardInterrupt(), "engine_error", "server_error"),
        (ContextOverflowError("full", 9, 5), "context_length_exceeded", "invalid_request_error"),
    ],
)
def test_an_error_in_mid_stream_is_an_event_of_the_stream(error: BaseException, code: str, kind: str) -> None:
    with serving(Failing(error), keepalive_s=0.05) as url:
        for body in (STREAM, {**STREAM, "stream_options": {"include_usage": True}}):
            answer = post(url + PATH, json=body)
            assert answer.status_code == 200
            _, text, failure, done = events_of(answer.text)
            assert text["choices"][0]["delta"] == {"content": "some"}
            assert (failure["error"]["code"], failure["error"]["type"]) == (code, kind)
            assert "secret" not in answer.text
            assert done == "[DONE]"
        whole = post(url + PATH, json=CHAT)
        assert whole.json()["error"]["code"] == code
        assert whole.status_code == (500 if kind == "server_error" else 400)
        assert get(url + "/health").json()["num_requests"] == 0


class Endless(Backend):
    """Never ends by itself, and says so when it is closed."""

    def __init__(self) -> None:
        self.is_begun, self.is_closed = threading.Event(), threading.Event()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("endless", None)

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        try:
            while True:
                self.is_begun.set()
                yield ChatDelta(content="more ")
        finally:
            self.is_closed.set()


def test_an_answer_without_its_end_is_an_error() -> None:
    class Short(Endless):
        def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
            yield ChatDelta(content="half")

    with serving(Short()) as url:
        assert post(url + PATH, json=CHAT).json()["error"]["code"] == "engine_error"
        events = events_of(post(url + PATH, json=STREAM).text)
    assert events[-2]["error"]["code"] == "engine_error"


@pytest.mark.parametrize("body", [STREAM, CHAT], ids=["stream", "whole"])
def test_a_client_that_leaves_ends_the_decoding(body: dict[str, Any]) -> None:
    backend = HeldBackend()
    with serving(backend) as url:
        ask_and_leave(url, PATH, body, lambda: len(backend.requests) == 1)
        eventually(lambda: backend.ends == ["aborted"])
        eventually(lambda: get(url + "/health").json()["num_requests"] == 0)
        backend.let_go(3)
        assert post(url + PATH, json=CHAT).status_code == 200


@pytest.mark.parametrize("body", [STREAM, CHAT], ids=["stream", "whole"])
def test_a_backend_that_does_not_look_at_abort_is_closed(body: dict[str, Any]) -> None:
    backend = Endless()
    with serving(backend) as url:
        ask_and_leave(url, PATH, body, backend.is_begun.is_set)
        assert backend.is_closed.wait(WAIT_S)
        eventually(lambda: get(url + "/health").json()["num_requests"] == 0)


def test_usage_tells_how_many_drafts_were_right() -> None:
    with serving(HeldBackend(is_held=False)) as url:
        answer = post(url + PATH, json={**CHAT, "asymspec": {"edits": []}}).json()
        plain = post(url + PATH, json=CHAT).json()
    assert answer["usage"]["completion_tokens_details"] == {
        "accepted_prediction_tokens": 3,
        "rejected_prediction_tokens": 1,
    }
    assert "completion_tokens_details" not in plain["usage"]
    assert "asymspec" not in plain


def test_reasoning_is_apart_from_the_answer() -> None:
    class Thinking(Endless):
        def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
            yield ChatDelta(reasoning="hm")
            yield ChatDelta(content="yes", finish_reason="stop", usage=Usage(1, 2))

    with serving(Thinking()) as url:
        message = post(url + PATH, json=CHAT).json()["choices"][0]["message"]
        chunks = events_of(post(url + PATH, json=STREAM).text)
    assert (message["reasoning"], message["content"]) == ("hm", "yes")
    assert [chunk["choices"][0]["delta"] for chunk in chunks[1:3]] == [
        {"reasoning": "hm"},
        {"content": "yes"},
    ]
