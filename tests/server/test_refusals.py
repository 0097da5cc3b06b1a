"""What a server must refuse, each with a 4xx in OpenAI's error shape, after which it answers as before."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from tests.engine.tiny_folder import WEATHER, random_backend

from .serving import WAIT_S, serving

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
USER = {"role": "user", "content": "Hello"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "rain"}
GOOD = {"messages": [USER], "max_tokens": 3}
LONG = "a" * 2_000  # tokens too, with the tiny models' tokenizer
HUGE = 10**400


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    backend = random_backend()
    with (
        serving({"tiny": backend, "small": backend.with_arm("drafter")}) as url,
        httpx.Client(base_url=url, timeout=WAIT_S) as client,
    ):
        yield client


def send(client: httpx.Client, path: str, body: object) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return client.post(path, content=content, headers={"content-type": "application/json"})


def check_refusal(answer: httpx.Response, code: str, param: str | None, *, status: int = 400) -> str:
    """Asserts OpenAI's error shape; the message."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    error = answer.json()["error"]
    assert error["type"] == "invalid_request_error"
    assert (error["code"], error["param"]) == (code, param), error["message"]
    assert isinstance(error["message"], str)
    assert error["message"]
    return str(error["message"])


def check_still_right(client: httpx.Client) -> None:
    answer = send(client, CHAT, {**GOOD, "asymspec": {"edits": [{"message": 0, "text": "Hi"}]}})
    assert answer.status_code == 200
    assert answer.json()["usage"]["completion_tokens"] == 3
    assert client.get("/health").json() == {"status": "ok", "num_requests": 0}


ASYMSPEC: list[tuple[Mapping[str, Any], str, str | None]] = [
    ({"edits": [], "mode": "nope"}, "invalid_value", "asymspec.mode"),
    ({"edits": [], "mode": 5}, "invalid_value", "asymspec.mode"),
    ({"edits": [], "beta": -0.1}, "invalid_value", "asymspec.beta"),
    ({"edits": [], "beta": 4.1}, "invalid_value", "asymspec.beta"),
    ({"edits": [], "beta": HUGE}, "invalid_value", "asymspec.beta"),
    ({"edits": [], "beta": "1"}, "invalid_value", "asymspec.beta"),
    ({"edits": [], "gamma": -1}, "invalid_value", "asymspec.gamma"),
    ({"edits": [], "gamma": 5}, "invalid_value", "asymspec.gamma"),
    ({"edits": [], "num_draft_tokens": 0}, "invalid_value", "asymspec.num_draft_tokens"),
    ({"edits": [], "num_draft_tokens": 9}, "invalid_value", "asymspec.num_draft_tokens"),
    ({"edits": [], "num_draft_tokens": 1.5}, "invalid_value", "asymspec.num_draft_tokens"),
    ({"edits": [], "num_draft_tokens": True}, "invalid_value", "asymspec.num_draft_tokens"),
    ({"edits": [], "plausibility": 1}, "invalid_value", "asymspec.plausibility"),
    ({"edits": [], "slack": 0}, "invalid_value", "asymspec.slack"),
    ({"edits": [], "gate": "cda"}, "invalid_value", "asymspec"),
    ({"edits": [], "gate": "nope", "delta": "none"}, "invalid_value", "asymspec.gate"),
    ({"edits": [], "version": 2}, "invalid_value", "asymspec.version"),
    ({"edits": [], "unknown": 1}, "invalid_value", "asymspec.unknown"),
    ({"edits": [], "\ud800": 1}, "invalid_value", "asymspec"),
    ({}, "invalid_value", "asymspec"),
    ({"edits": [], "messages": [USER]}, "invalid_value", "asymspec"),
    ({"edits": [{"message": 1, "text": ""}]}, "invalid_messages", "asymspec.edits[0]"),
    ({"edits": [{"message": HUGE, "text": ""}]}, "invalid_messages", "asymspec.edits[0]"),
    ({"edits": [{"message": -1, "text": ""}]}, "invalid_messages", "asymspec.edits[0].message"),
    ({"edits": [{"message": 0, "part": 0, "text": ""}]}, "invalid_messages", "asymspec.edits[0]"),
    ({"edits": [{"message": 0, "text": 5}]}, "invalid_messages", "asymspec.edits[0].text"),
    ({"edits": [{"message": 0, "text": ""}] * 2}, "invalid_messages", "asymspec.edits[1]"),
    ({"edits": {}}, "invalid_messages", "asymspec.edits"),
    ({"messages": []}, "invalid_messages", "asymspec.messages"),
    ({"messages": [RESULT]}, "invalid_messages", "asymspec.messages[0].tool_call_id"),
    ({"messages": [{"role": "user", "content": LONG}]}, "context_length_exceeded", "asymspec"),
]


@pytest.mark.parametrize(("asymspec", "code", "param"), ASYMSPEC, ids=range(len(ASYMSPEC)))
def test_an_asymspec_object_that_cannot_be_followed_is_refused(
    client: httpx.Client, asymspec: Mapping[str, Any], code: str, param: str | None
) -> None:
    check_refusal(send(client, CHAT, {**GOOD, "asymspec": asymspec}), code, param)
    check_still_right(client)


def test_an_edit_at_a_tool_call_is_refused(client: httpx.Client) -> None:
    body = {"messages": [USER, CALL, RESULT], "asymspec": {"edits": [{"message": 1, "text": "{}"}]}}
    message = check_refusal(send(client, CHAT, body), "invalid_messages", "asymspec.edits[0]")
    assert "tool calls cannot be edited" in message


MESSAGES: list[tuple[object, str]] = [
    ([], "messages"),
    (None, "messages"),
    ("Hello", "messages"),
    ({}, "messages"),
    ([None], "messages[0]"),
    ([{}], "messages[0].role"),
    ([{"role": "wizard", "content": "a"}], "messages[0].role"),
    ([{"role": "\ud800", "content": "a"}], "messages[0].role"),
    ([{"role": "user"}], "messages[0].content"),
    ([{"role": "user", "content": None}], "messages[0].content"),
    ([{"role": "user", "content": 5}], "messages[0].content"),
    ([{"role": "user", "content": [{"text": "a"}]}], "messages[0].content[0].type"),
    ([{"role": "user", "content": [{"type": "text"}]}], "messages[0].content[0].text"),
    ([USER, RESULT], "messages[1].tool_call_id"),
    ([USER, {"role": "tool", "content": "a"}], "messages[1].tool_call_id"),
    ([USER, CALL, RESULT, RESULT], "messages[3].tool_call_id"),
    ([USER, {**CALL, "tool_calls": [{"id": "1"}]}], "messages[1].tool_calls[0].function"),
    ([USER, {**CALL, "tool_calls": [{"function": {}}]}], "messages[1].tool_calls[0].function.name"),
    ([USER, {**CALL, "tool_calls": 5}], "messages[1].tool_calls"),
]


@pytest.mark.parametrize(("messages", "param"), MESSAGES, ids=range(len(MESSAGES)))
def test_messages_that_are_no_conversation_are_refused(
    client: httpx.Client, messages: object, param: str
) -> None:
    for path in (CHAT, "/tokenize"):
        check_refusal(send(client, path, {"messages": messages}), "invalid_messages", param)
    check_still_right(client)


FIELDS: list[tuple[Mapping[str, Any], str, str | None]] = [
    ({"temperature": -1}, "invalid_value", "temperature"),
    ({"temperature": "0"}, "invalid_value", "temperature"),
    ({"temperature": HUGE}, "invalid_value", "temperature"),
    ({"top_p": 0}, "invalid_value", "top_p"),
    ({"top_p": 1.5}, "invalid_value", "top_p"),
    ({"seed": 2**64}, "invalid_value", "seed"),
    ({"max_tokens": 0}, "invalid_value", "max_tokens"),
    ({"max_tokens": True}, "invalid_value", "max_tokens"),
    ({"max_tokens": HUGE}, "invalid_value", "max_tokens"),
    ({"stop": ""}, "invalid_value", "stop"),
    ({"stop": [1]}, "invalid_value", "stop[0]"),
    ({"stream": "true"}, "invalid_value", "stream"),
    ({"stream_options": 1}, "invalid_value", "stream_options"),
    ({"cache_salt": 1}, "invalid_value", "cache_salt"),
    ({"cache_salt": "a" * 1025}, "invalid_value", "cache_salt"),
    ({"model": 5}, "invalid_value", "model"),
    ({"n": 2}, "unsupported_value", "n"),
    ({"logit_bias": {"5": 1}}, "unsupported_value", "logit_bias"),
    ({"frequency_penalty": 0.1}, "unsupported_value", "frequency_penalty"),
    ({"some_future_field": {}}, "unsupported_value", "some_future_field"),
    ({"\ud800": 1}, "invalid_value", None),
]


@pytest.mark.parametrize(("fields", "code", "param"), FIELDS, ids=range(len(FIELDS)))
def test_fields_out_of_range_are_refused_at_both_endpoints(
    client: httpx.Client, fields: Mapping[str, Any], code: str, param: str | None
) -> None:
    for path, body in ((CHAT, GOOD), (TEXT, {"prompt": "Hello"})):
        for is_stream in (False, True):
            check_refusal(send(client, path, {**body, "stream": is_stream, **fields}), code, param)
    check_still_right(client)


CHAT_FIELDS: list[tuple[Mapping[str, Any], str, str]] = [
    ({"max_completion_tokens": 4}, "invalid_value", "max_tokens"),
    ({"tools": 5}, "invalid_value", "tools"),
    ({"tools": [{"type": "function", "function": {}}]}, "invalid_value", "tools[0].function.name"),
    ({"tool_choice": "required"}, "invalid_value", "tool_choice"),
    ({"tools": [WEATHER], "tool_choice": "sometimes"}, "unsupported_value", "tool_choice"),
    (
        {"tools": [WEATHER], "tool_choice": {"type": "function", "function": {"name": "other"}}},
        "invalid_value",
        "tool_choice",
    ),
    ({"response_format": {"type": "poem"}}, "unsupported_value", "response_format"),
    ({"response_format": "json"}, "invalid_value", "response_format"),
    ({"chat_template_kwargs": []}, "invalid_value", "chat_template_kwargs"),
    ({"asymspec": {"edits": []}, "temperature": 0.5}, "unsupported_value", "temperature"),
    ({"asymspec": {"edits": []}, "model": "small"}, "unsupported_value", "asymspec"),
]


@pytest.mark.parametrize(("fields", "code", "param"), CHAT_FIELDS, ids=range(len(CHAT_FIELDS)))
def test_fields_of_chats_are_checked(
    client: httpx.Client, fields: Mapping[str, Any], code: str, param: str
) -> None:
    check_refusal(send(client, CHAT, {**GOOD, **fields}), code, param)
    check_still_right(client)


PROMPTS: list[tuple[Mapping[str, Any], str, str | None]] = [
    ({}, "invalid_value", "prompt"),
    ({"prompt": None}, "invalid_value", "prompt"),
    ({"prompt": ["a", "b"]}, "invalid_value", "prompt"),
    ({"prompt": [1, "a"]}, "invalid_value", "prompt[1]"),
    ({"prompt": [10**6]}, "invalid_value", "prompt"),
    ({"prompt": [-1]}, "invalid_value", "prompt"),
    ({"prompt": [HUGE]}, "invalid_value", "prompt"),
    ({"prompt": [[1], [2]]}, "invalid_value", "prompt"),
    ({"prompt": LONG}, "context_length_exceeded", "prompt"),
    ({"prompt": "a", "asymspec": {"prompt": [10**6]}}, "invalid_value", "asymspec.prompt"),
    ({"prompt": "a", "asymspec": {"edits": []}}, "invalid_value", "asymspec.prompt"),
    ({"prompt": "a", "asymspec": {"prompt": LONG}}, "context_length_exceeded", "asymspec"),
]


@pytest.mark.parametrize(("body", "code", "param"), PROMPTS, ids=range(len(PROMPTS)))
def test_prompts_that_cannot_be_read_are_refused(
    client: httpx.Client, body: Mapping[str, Any], code: str, param: str | None
) -> None:
    check_refusal(send(client, TEXT, body), code, param)
    check_still_right(client)


def test_an_over_long_view_is_named_with_its_length_and_the_limit(client: httpx.Client) -> None:
    long = [{"role": "user", "content": LONG}]
    answer = send(client, CHAT, {"messages": long, "asymspec": {"edits": [{"message": 0, "text": "a"}]}})
    message = check_refusal(answer, "context_length_exceeded", "messages")
    error = answer.json()["error"]
    assert (error["view"], error["limit"]) == ("full", 1_533)
    assert f"{error['num_tokens'] - 1_533:,} over the limit of 1,533" in message


def test_greedy_decoding_may_be_asked_for_where_the_client_samples(client: httpx.Client) -> None:
    asked = {"edits": [], "on_sampling": "greedy"}
    answer = send(client, CHAT, {**GOOD, "temperature": 0.7, "asymspec": asked})
    assert answer.status_code == 200
    assert answer.json()["asymspec"]["fallback"] == "greedy, identical_views"


def nested(depth: int) -> bytes:
    return b'{"messages":' + b"[" * depth + b"]" * depth + b"}"


BODIES: list[bytes] = [
    b"",
    b" ",
    b"{",
    b"[]",
    b"null",
    b'"text"',
    b"\xff",
    b'{"messages": "\xed\xa0\x80"}',  # a surrogate in UTF-8's manner
    json.dumps(GOOD).encode("utf-16"),
    json.dumps(GOOD).encode("utf-16-le"),
    b'{"temperature": NaN}',
    b'{"temperature": -Infinity}',
    b'{"temperature": 1e999}',
    b'{"seed": ' + b"9" * 5_000 + b"}",
    b'{"messages": [{"role": "user", "content": "a\x00b"}]}',
    json.dumps(GOOD).encode() + b"{}",
    nested(64),
    nested(2_000),
    nested(200_000),
    b'{"a":' * 100_000,
]


@pytest.mark.parametrize("body", BODIES, ids=range(len(BODIES)))
@pytest.mark.parametrize("path", [CHAT, TEXT, "/tokenize"])
def test_bodies_that_are_no_json_object_are_refused(client: httpx.Client, path: str, body: bytes) -> None:
    message = check_refusal(send(client, path, body), "invalid_messages", None)
    assert len(message) < 300
    check_still_right(client)


GOOD_BODIES: list[bytes] = [
    b"\xef\xbb\xbf" + json.dumps(GOOD).encode(),  # with a byte-order mark
    b'{"max_tokens": 9999999, "max_tokens": 2, "messages": [{"role": "user", "content": "a"}]}',
    json.dumps({**GOOD, "messages": [{"role": "user", "content": "\ud800\x00\uffff"}]}).encode(),
    json.dumps({**GOOD, "stop": ["\ud800"], "session_id": "\udfff", "cache_salt": "\ud800"}).encode(),
    json.dumps({**GOOD, "request_id": "\ud800\r\n", "user": "\ud800", "metadata": {"\ud800": 1}}).encode(),
    json.dumps({**GOOD, "chat_template_kwargs": {"mood": "\ud800"}}).encode(),
    json.dumps({**GOOD, "tools": [{"type": "function", "function": {"name": "\ud800"}}]}).encode(),
    json.dumps({**GOOD, "asymspec": {"edits": [{"message": 0, "text": "\ud800"}]}}).encode(),
    json.dumps({**GOOD, "n": 1, "logprobs": None, "store": True, "presence_penalty": 0.0}).encode(),
]


@pytest.mark.parametrize("body", GOOD_BODIES, ids=range(len(GOOD_BODIES)))
def test_odd_but_valid_bodies_are_answered(client: httpx.Client, body: bytes) -> None:
    answer = send(client, CHAT, body)
    assert answer.status_code == 200, answer.text


@pytest.mark.parametrize(
    "headers",
    [{}, {"content-type": "text/plain"}, {"content-type": "application/json", "content-encoding": "gzip"}],
)
def test_bodies_that_are_not_plain_json_by_their_headers_are_refused(
    client: httpx.Client, headers: dict[str, str]
) -> None:
    for path in (CHAT, TEXT, "/tokenize"):
        answer = client.post(path, content=json.dumps(GOOD), headers=headers)
        check_refusal(answer, "unsupported_media_type", None, status=415)
    check_still_right(client)


def test_an_unknown_model_is_a_404_that_names_the_models(client: httpx.Client) -> None:
    for model in ("other", "\ud800", "a" * 10_000):
        for path, body in ((CHAT, GOOD), (TEXT, {"prompt": "a"}), ("/tokenize", GOOD)):
            answer = send(client, path, {**body, "model": model})
            message = check_refusal(answer, "model_not_found", "model", status=404)
            assert message.endswith("models: tiny, small")
            assert len(message) < 300
    check_still_right(client)
