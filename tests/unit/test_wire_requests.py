"""Request bodies: a request written and read again is the same request; what changes nothing is dropped."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.backends import ChatRequest, CompletionRequest
from asymspec_agents.errors import ConfigurationError, MessageError
from asymspec_agents.wire.fields import LABELS, NEUTRAL
from asymspec_agents.wire.json_body import MAX_DEPTH, MAX_DIGITS, json_object
from asymspec_agents.wire.requests import parse_chat, parse_completion, request_body

TEXT = st.text(st.characters() | st.just("\ud800"), max_size=8)
NAME = st.text("abcdefgh_", min_size=1, max_size=6)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
OBJECT = st.dictionaries(NAME, JSON, max_size=3)
PART = st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}) | st.fixed_dictionaries(
    {"type": st.just("image_url"), "image_url": st.fixed_dictionaries({"url": TEXT})}
)
CONTENT = TEXT | st.lists(PART, max_size=3)


@st.composite
def conversations(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Messages that a chat model can answer."""
    messages: list[dict[str, Any]] = []
    for number in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["system", "user", "assistant", "calls"]))
        if kind == "calls":
            call = {
                "id": f"c{number}",
                "type": "function",
                "function": {"name": "f", "arguments": draw(TEXT)},
            }
            messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
            messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": draw(CONTENT)})
        else:
            further = draw(st.dictionaries(st.just("name"), NAME) | st.dictionaries(st.just("x"), JSON))
            messages.append({"role": kind, "content": draw(CONTENT), **further})
    return messages


TOOLS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.just("function"),
            "function": st.fixed_dictionaries({"name": NAME}, optional={"parameters": OBJECT}),
        }
    ),
    max_size=2,
)
MODES = st.sampled_from(["asymspec", "strict", "scaled"])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "mode": MODES,
        "beta": st.floats(0, 4),
        "num_draft_tokens": st.integers(1, 8),
        "agreement": st.booleans(),
        "on_sampling": st.sampled_from(["error", "greedy"]),
    },
)
SHARED = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.integers(1, 10**6),
        "stop": st.lists(TEXT.filter(bool), max_size=2),
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0.01, 1),
        "seed": st.integers(-(2**63), 2**63 - 1),
        "cache_salt": TEXT,
        "session_id": TEXT,
        "extra": st.dictionaries(NAME.map("x_".__add__), JSON.filter(lambda value: value is not None)),
    },
)
CHAT = st.fixed_dictionaries(
    {"messages": conversations(), "tools": TOOLS},
    optional={
        "parallel_tool_calls": st.booleans(),
        "response_format": st.fixed_dictionaries({"type": NAME}),
        "chat_template_kwargs": OBJECT,
    },
)


@st.composite
def chat_requests(draw: st.DrawFn) -> ChatRequest:
    given_fields = {**draw(SHARED), **draw(CHAT)}
    if given_fields["tools"]:
        given_fields["tool_choice"] = draw(st.sampled_from([None, "auto", "none", "required"]))
    view = draw(st.sampled_from(["none", "edits", "messages"]))
    asymspec: dict[str, Any] = draw(OPTIONS)
    if view == "messages":
        asymspec = {**asymspec, "messages": draw(conversations()), "tools": draw(TOOLS)}
    elif view == "edits":
        editable = [n for n, m in enumerate(given_fields["messages"]) if isinstance(m["content"], str)]
        edits = [{"message": number, "text": draw(TEXT)} for number in editable]
        asymspec = {**asymspec, "edits": edits}
    return ChatRequest(**given_fields, asymspec=None if view == "none" else asymspec, request_id="r")


def travelled(body: dict[str, Any]) -> dict[str, Any]:
    """The body as a server gets it."""
    return json_object(json.dumps(body).encode())


def same(left: Any, right: Any) -> bool:
    """Equal in every field; a temperature of None and one of 0 both mean greedy."""
    for item in fields(left):
        mine, theirs = getattr(left, item.name), getattr(right, item.name)
        if item.name == "temperature":
            mine, theirs = mine or 0, theirs or 0
        if mine != theirs:
            raise AssertionError(f"{item.name}: {mine!r} != {theirs!r}")
    return True


@given(chat_requests())
def test_a_chat_request_comes_back_the_same(request: ChatRequest) -> None:
    incoming = parse_chat(travelled(request_body(request, "m")), request_id="r")
    assert same(incoming.request, request)
    assert (incoming.model, incoming.is_stream, incoming.has_usage_chunk) == ("m", False, False)


@given(
    SHARED,
    TEXT | st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.none() | OPTIONS,
    TEXT | st.lists(st.integers(0, 9), min_size=1, max_size=4),
)
def test_a_completion_request_comes_back_the_same(
    shared: dict[str, Any], prompt: Any, options: dict[str, Any] | None, compressed: Any
) -> None:
    asymspec = None if options is None else {**options, "prompt": compressed}
    request = CompletionRequest(prompt=prompt, asymspec=asymspec, request_id="r", **shared)
    incoming = parse_completion(travelled(request_body(request, None)), request_id="r")
    assert same(incoming.request, request)
    assert incoming.model is None


@pytest.mark.parametrize("name", ["messages", "model", "stream", "max_completion_tokens", "prompt", "seed"])
def test_an_extra_field_must_not_be_the_requests_own(name: str) -> None:
    request = ChatRequest(messages=[{"role": "user", "content": "a"}], extra={name: 1})
    with pytest.raises(ConfigurationError, match=f"extra.{name}"):
        request_body(request, None)


def body(**further: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "a"}], **further}


def test_fields_that_change_nothing_are_dropped_and_all_others_are_kept() -> None:
    for name in LABELS:
        assert parse_chat(body(**{name: "anything"})).request.extra == {}
    for name, values in NEUTRAL.items():
        for value in values:
            assert parse_chat(body(**{name: value})).request.extra == {}
        for value in ("odd", not values[0], [5]):
            if value not in values:
                assert parse_chat(body(**{name: value})).request.extra == {name: value}
    assert parse_chat(body(n=True)).request.extra == {"n": True}  # equal to 1 in Python, not in JSON
    assert parse_chat(body(logprobs=0)).request.extra == {"logprobs": 0}
    assert parse_chat(body(new=None)).request.extra == {}


def test_the_bodys_own_request_id_outranks_the_headers() -> None:
    assert parse_chat(body(request_id="b"), request_id="h").request.request_id == "b"
    assert parse_chat(body(), request_id="h").request.request_id == "h"
    assert parse_chat(body()).request.request_id != parse_chat(body()).request.request_id


def test_both_names_of_the_longest_answer_are_one() -> None:
    assert parse_chat(body(max_completion_tokens=5)).request.max_tokens == 5
    assert parse_chat(body(max_completion_tokens=5, max_tokens=5)).request.max_tokens == 5
    with pytest.raises(ConfigurationError, match="differ"):
        parse_chat(body(max_completion_tokens=5, max_tokens=6))


@pytest.mark.parametrize("limit", [None, 1, 16, 5_000])
def test_a_completions_length_travels_and_only_a_missing_one_has_a_default(limit: int | None) -> None:
    request = CompletionRequest(prompt="a", max_tokens=limit)
    sent = travelled(request_body(request, None))
    assert parse_completion(sent).request.max_tokens == limit
    assert parse_completion({"prompt": "a"}).request.max_tokens == 16  # as with OpenAI
    assert parse_completion({"prompt": "a", "max_tokens": None}).request.max_tokens is None
    assert parse_chat(body()).request.max_tokens is None


@pytest.mark.parametrize(("place", "value"), [("message", -1), ("part", -3), ("message", 1.5)])
def test_an_impossible_place_of_an_edit_is_told_with_its_value(place: str, value: float) -> None:
    edit = {"message": 0, "text": "a secret", place: value}
    with pytest.raises(MessageError, match=rf"^asymspec\.edits\[0\]\.{place}={value}: ") as caught:
        parse_chat(body(asymspec={"edits": [edit]}))
    assert "secret" not in str(caught.value)


def test_an_idle_tool_choice_without_tools_is_none() -> None:
    for choice in ("auto", "none"):
        assert parse_chat(body(tool_choice=choice, tools=[])).request.tool_choice is None
    assert parse_chat(body(tool_choice="required")).request.tool_choice == "required"


def test_content_stays_out_of_errors() -> None:
    secret = "a secret"
    bodies = [
        body(messages=[{"role": "user", "content": {"text": secret}}]),
        body(messages=[{"role": "user", "content": [{"type": "text", "text": [secret]}]}]),
        body(messages=[{"role": secret, "content": "a"}]),
        body(messages=secret),
        body(asymspec={"edits": [{"message": secret, "text": secret}]}),
        body(asymspec={"edits": secret}),
        body(asymspec={"edits": [], "messages": secret}),
        body(tools=[{"type": "function", "function": {"name": [secret]}}]),
        body(chat_template_kwargs=secret),
    ]
    for wrong in bodies:
        with pytest.raises((MessageError, ConfigurationError)) as caught:
            parse_chat(wrong)
        assert secret not in str(caught.value)
    with pytest.raises(ConfigurationError) as caught:
        parse_completion({"prompt": {"a": secret}})
    assert secret not in str(caught.value)


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def test_depth_is_bounded_exactly() -> None:
    json_object(nested(MAX_DEPTH))
    for depth in (MAX_DEPTH + 1, 5_000, 100_000):
        with pytest.raises(MessageError, match="nested deeper"):
            json_object(nested(depth))
    json_object(b'{"a": "' + b"[" * 100 + b'"}')  # brackets in texts are no nesting


@pytest.mark.parametrize("sign", [b"", b"-"])
def test_long_integers_are_bounded_with_a_word_of_ours(sign: bytes) -> None:
    longest = sign + b"9" * (MAX_DIGITS - len(sign))
    assert json_object(b'{"a": [%s]}' % longest) == {"a": [int(longest)]}
    for more in (1, 1_000, 100_000):
        with pytest.raises(
            MessageError, match=f"has {MAX_DIGITS + more:,} digits; the limit is {MAX_DIGITS:,}$"
        ):
            json_object(b'{"a": [%s]}' % (longest + b"9" * more))


@given(st.dictionaries(TEXT, JSON, max_size=4))
def test_json_objects_are_read_as_json_says(value: dict[str, Any]) -> None:
    assert json_object(json.dumps(value).encode()) == value
    assert json_object(b"\xef\xbb\xbf" + json.dumps(value).encode()) == value


@given(st.binary(max_size=40))
def test_any_bytes_are_an_object_or_an_error(data: bytes) -> None:
    try:
        value = json_object(data)
    except MessageError as error:
        value = {"error": str(error)}
    assert isinstance(value, dict)
    assert len(value.get("error", "")) < 300
