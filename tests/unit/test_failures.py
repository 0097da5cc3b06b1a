"""Errors over HTTP: an exception written as an error object and read again is the same exception."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import (
    AsymSpecError,
    BackendError,
    ConfigurationError,
    ContextOverflowError,
    MessageError,
    RequestAbortedError,
    ServerError,
    UnsupportedRequestError,
)
from asymspec_agents.wire.failures import NO_REASON, failure_of, raise_error

TEXT = st.text(st.characters() | st.just("\ud800"), min_size=1)


def raised(status: int, body: Any) -> AsymSpecError:
    with pytest.raises(AsymSpecError) as caught:
        raise_error(status, body, "http://server")
    return caught.value


def travelled(error: BaseException) -> tuple[AsymSpecError, AsymSpecError]:
    """The exception after its way over HTTP, as a response and inside a stream."""
    failure = failure_of(error)
    body = json.loads(json.dumps(failure.body()))
    return raised(failure.status, body), raised(200, body)


@pytest.mark.parametrize("kind", [MessageError, ConfigurationError, UnsupportedRequestError])
@given(text=TEXT)
def test_refusals_come_back_as_they_were(kind: Callable[[str], AsymSpecError], text: str) -> None:
    for back in travelled(kind(text)):
        assert type(back) is kind
        assert str(back) == text


@given(
    st.sampled_from(["full", "compressed"]),
    st.integers(1, 10**9),
    st.integers(1, 10**9),
    st.text("ab; ,\n"),
)
def test_an_over_long_view_comes_back_whole(view: Any, num_tokens: int, limit: int, advice: str) -> None:
    error = ContextOverflowError(view, num_tokens, limit, advice)
    for back in travelled(error):
        assert isinstance(back, ContextOverflowError)
        assert (back.view, back.num_tokens, back.limit, str(back)) == (view, num_tokens, limit, str(error))
    param = {"full": "prompt", "compressed": "asymspec"}[view]
    assert failure_of(error, "prompt").param == param


def test_failures_of_the_server_come_back_with_their_status() -> None:
    for error, status, code in (
        (BackendError("out of memory"), 500, "engine_error"),
        (RequestAbortedError("stopping"), 503, "request_aborted"),
    ):
        response, in_stream = travelled(error)
        assert isinstance(response, ServerError)
        assert (response.status, response.code) == (status, code)
        assert str(error) in str(response)
        assert isinstance(in_stream, ServerError)
        assert in_stream.status == 500


def test_what_is_no_error_of_ours_does_not_tell_its_text() -> None:
    failure = failure_of(KeyError("secret"))
    assert (failure.status, failure.code) == (500, "internal_error")
    assert "secret" not in json.dumps(failure.body())
    assert "KeyError" in failure.message


@pytest.mark.parametrize(
    ("text", "param"),
    [
        ("max_tokens=0: Input should be at least 1", "max_tokens"),
        ("messages is empty", "messages"),
        ("messages[3].tool_calls[0].function: no", "messages[3].tool_calls[0].function"),
        ("asymspec.beta=9: Input should be at most 4", "asymspec.beta"),
        ("asymspec: mode='x' is unknown", "asymspec.mode"),
        ("asymspec: exactly one of edits and messages", "asymspec"),
        ("edits[0] (message=5): there are only 2 messages", "asymspec.edits[0]"),
        ("beta=9 must be at most 4", "asymspec.beta"),
        ("n=2: not supported by the local engine", "n"),
        ("response_format of type 'x' is not supported", "response_format"),
        ("tools need one of them", "tools"),
        ("the body is not UTF-8", None),
        ("the full view has no tokens", None),
        ("Something else", None),
        ("", None),
        ("=5: no", None),
    ],
)
def test_the_param_is_the_field_that_the_text_begins_with(text: str, param: str | None) -> None:
    assert failure_of(ConfigurationError(text)).param == param


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"error": {"message": "a", "code": 5}}, "a"),
        ({"error": "a"}, "a"),
        ({"detail": "a"}, "a"),
        ({"detail": [{"loc": ["body"], "msg": "a"}]}, '"msg": "a"'),
        ({"object": "error", "message": "a", "code": 400}, "a"),  # vLLM before 0.11
        ({"message": "a"}, "a"),
        ({"error": {"message": {"a": 1}}}, '{"a": 1}'),
        ({"error": {"message": None}}, NO_REASON),
        ({"error": {}}, NO_REASON),
        ({"error": None}, NO_REASON),
        ({}, NO_REASON),
        (None, NO_REASON),
    ],
)
def test_errors_of_other_servers_are_read_wherever_they_stand(body: Any, text: str) -> None:
    error = raised(418, body)
    assert isinstance(error, ServerError)
    assert error.status == 418
    assert text in str(error)
    assert "http://server" in str(error)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["full", "context_length_exceeded", "invalid_value"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["message", "code", "type", "view", "limit", "num_tokens"]), inner)
    ),
    max_leaves=8,
)


@given(st.integers(200, 599), st.dictionaries(st.sampled_from(["error", "detail", "message", "code"]), JSON))
def test_any_body_is_an_error_of_ours(status: int, body: dict[str, Any]) -> None:
    assert str(raised(status, body))
