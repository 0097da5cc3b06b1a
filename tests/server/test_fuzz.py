"""Whatever is sent is answered or refused, never a 500: made from the schema, from JSON, and from bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

schemathesis = pytest.importorskip("schemathesis")

from asymspec_agents.backends import ChatDelta  # noqa: E402
from asymspec_agents.backends.local import LocalBackend  # noqa: E402
from asymspec_agents.backends.request import AnyRequest  # noqa: E402
from asymspec_agents.server.openapi import openapi_schema  # noqa: E402
from tests.engine.tiny_folder import WEATHER, random_backend  # noqa: E402

from .serving import WAIT_S, serving  # noqa: E402

PATHS = ("/v1/chat/completions", "/v1/completions", "/tokenize")
STATUSES = {200, 400, 404, 415}
KEY = "fuzz-key"


class Brief(LocalBackend):
    """An engine whose answers are short, however long they may be."""

    def stream(self, request: AnyRequest, *, abort: Any = None) -> Iterator[ChatDelta]:
        return super().stream(replace(request, max_tokens=min(request.max_tokens or 2, 2)), abort=abort)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    local = random_backend()
    with serving({"tiny": Brief(local.engine, local.template)}, api_keys=(KEY,)) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, headers={"authorization": f"Bearer {KEY}"}, timeout=WAIT_S) as client:
        yield client


def budget(num_examples: int) -> settings:
    return settings(
        max_examples=num_examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


OPERATIONS = [
    (path, method, mode)
    for path, methods in openapi_schema()["paths"].items()
    for method in methods
    for mode in ("positive", "negative")
    if (method, mode) != ("get", "negative")  # nothing to get wrong
]
CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    # Not positive_data_acceptance: a body may follow the schema and ask for what this engine cannot do.
]


def check_operation(url: str, path: str, method: str, mode: str, num_examples: int) -> None:
    """Sends bodies made from the schema; what comes back must keep to it too."""
    schemathesis.checks.load_all_checks()
    checks = schemathesis.checks.CHECKS.get_by_names(CHECKS)
    operation = schemathesis.openapi.from_dict(openapi_schema())[path][method.upper()]
    cases = operation.as_strategy(generation_mode=schemathesis.GenerationMode(mode))

    @given(cases)
    @budget(num_examples)
    def check(case: Any) -> None:
        case.call_and_validate(base_url=url, headers={"authorization": f"Bearer {KEY}"}, checks=checks)

    check()


QUICK = [case for case in OPERATIONS if case[1] == "get" or case[0] == "/v1/completions"]


@pytest.mark.parametrize(("path", "method", "mode"), QUICK)
def test_every_endpoint_keeps_to_its_description(url: str, path: str, method: str, mode: str) -> None:
    check_operation(url, path, method, mode, 25 if method == "post" else 1)


@pytest.mark.full
@pytest.mark.parametrize(("path", "method", "mode"), OPERATIONS)
def test_every_endpoint_keeps_to_its_description_at_length(
    url: str, path: str, method: str, mode: str
) -> None:
    check_operation(url, path, method, mode, 400 if method == "post" else 1)


def check_answer(answer: httpx.Response) -> None:
    assert answer.status_code in STATUSES, answer.text
    if answer.status_code != 200:
        error = answer.json()["error"]
        assert set(error) >= {"message", "type", "param", "code"}
        assert error["type"] == "invalid_request_error"
    elif answer.headers["content-type"].startswith("text/event-stream"):
        assert '"server_error"' not in answer.text
        assert answer.text.endswith("data: [DONE]\n\n")


NUMBERS = st.integers() | st.floats() | st.sampled_from([10**400, -(2**63), 1e308, 0, 1, 2])
TEXT = st.text(st.characters() | st.just("\ud800"), max_size=5)
LEAVES = st.none() | st.booleans() | NUMBERS | TEXT | st.sampled_from(["user", "tool", "a", "text"])
NAMES = st.sampled_from([
    "role", "content", "type", "text", "tool_calls", "tool_call_id", "id", "function", "name",
    "arguments", "parameters", "message", "part", "edits", "messages", "mode", "beta",
    "num_draft_tokens", "prompt", "version", "json_schema", "schema", "properties", "required", "gate",
    "delta", "include_usage", "image_url", "\ud800",
])  # fmt: skip
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
GOOD: dict[str, Any] = {
    "messages": [{"role": "user", "content": "Hello"}],
    "prompt": "Hello",
    "tools": [WEATHER],
    "asymspec": {"edits": [{"message": 0, "text": "Hi"}]},
    "temperature": 0,
    "max_tokens": 2,
    "stop": ["x"],
    "stream": True,
    "response_format": {"type": "json_object"},
    "tool_choice": "auto",
}
FIELDS = [
    *GOOD,
    "top_p", "seed", "n", "model", "stream_options", "cache_salt", "session_id", "logprobs", "user",
    "request_id", "logit_bias", "chat_template_kwargs", "parallel_tool_calls", "max_completion_tokens",
]  # fmt: skip


@st.composite
def bodies(draw: st.DrawFn) -> dict[str, Any]:
    """Good fields, some of them left out, replaced by anything, or changed somewhere inside."""
    kept = draw(st.sets(st.sampled_from(list(GOOD)), max_size=5))
    body = {name: GOOD[name] for name in GOOD if name in kept or name in ("messages", "prompt", "max_tokens")}
    for name in draw(st.sets(st.sampled_from(FIELDS), max_size=2)):
        body[name] = changed(draw, body[name]) if name in body and draw(st.booleans()) else draw(VALUES)
    return body


def changed(draw: st.DrawFn, value: Any) -> Any:
    """The value with one thing in it replaced."""
    if isinstance(value, dict) and value and draw(st.integers(0, 4)):
        name = draw(st.sampled_from(sorted(value)))
        return {**value, name: changed(draw, value[name])}
    if isinstance(value, list) and value and draw(st.integers(0, 4)):
        return [*value[:-1], changed(draw, value[-1])]
    return draw(VALUES)


def check_bodies(client: httpx.Client, num_examples: int) -> None:
    @given(st.sampled_from(PATHS), bodies())
    @budget(num_examples)
    def check(path: str, body: dict[str, Any]) -> None:
        content = json.dumps(body).encode()
        check_answer(client.post(path, content=content, headers={"content-type": "application/json"}))

    check()
    assert client.get("/health").json() == {"status": "ok", "num_requests": 0}


def test_changed_bodies_are_answered_or_refused(client: httpx.Client) -> None:
    check_bodies(client, 250)


@pytest.mark.full
def test_changed_bodies_are_answered_or_refused_at_length(client: httpx.Client) -> None:
    check_bodies(client, 10_000)


SEEDS = [
    json.dumps({name: GOOD[name] for name in names}).encode()
    for names in (("messages", "max_tokens", "asymspec"), ("messages", "tools", "stream"), ("prompt", "stop"))
]
SPLICES = st.binary(max_size=3) | st.sampled_from(
    [
        b"\xff",
        b"\x00",
        b"\\ud800",
        b"NaN",
        b"1e999",
        b"-",
        b"[" * 70,
        b'{"a":' * 70,
        b'"',
        b"}",
        b",",
        b"null",
    ]
)


def check_bytes(client: httpx.Client, num_examples: int) -> None:
    @given(
        st.sampled_from(PATHS),
        st.sampled_from(SEEDS),
        st.lists(st.tuples(st.integers(0, 200), st.integers(0, 12), SPLICES), max_size=3),
        st.sampled_from(["application/json"] * 7 + ["text/plain", "application/json; charset=utf-16"]),
    )
    @budget(num_examples)
    def check(path: str, seed: bytes, splices: list[tuple[int, int, bytes]], kind: str) -> None:
        content = seed
        for place, num_replaced, splice in splices:
            content = content[:place] + splice + content[place + num_replaced :]
        check_answer(client.post(path, content=content, headers={"content-type": kind}))

    check()


def test_spliced_bytes_are_answered_or_refused(client: httpx.Client) -> None:
    check_bytes(client, 250)


@pytest.mark.full
def test_spliced_bytes_are_answered_or_refused_at_length(client: httpx.Client) -> None:
    check_bytes(client, 10_000)
