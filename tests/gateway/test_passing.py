"""What goes through the gateway unchanged, and what is added to it."""

from __future__ import annotations

import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Mount

from asymspec_agents.gateway.app import create_gateway
from asymspec_agents.gateway.options import GatewayOptions, UpstreamOptions
from tests.gateway.scripted import EVENTS, JSON, Script, Upstream, chunk, chunks, completion
from tests.gateway.serving import CHAT, LONG, ask, running
from tests.gateway.serving import upstream as scripted_upstream

Pair = tuple[Upstream, str]

REPORT = {"asymspec": {"version": 1, "mode": "asymspec"}}


def test_a_call_goes_upstream_with_both_views(pair: Pair) -> None:
    raw = json.dumps({**LONG, "seed": 7, "x_unknown": {"a": [1.0, 1e3]}}, indent=1).encode()
    upstream, url = pair
    answer = ask(url, raw)
    (got,) = upstream.calls
    head = raw.rstrip()[:-1].rstrip()
    assert got.content.startswith(head)  # every byte of the client's own
    added = json.loads(b"{" + got.content[len(head) + 1 :])
    assert added.keys() == {"asymspec", "temperature"}
    (edit,) = added["asymspec"]["edits"]
    assert edit["message"] == 3
    assert "8123" in edit["text"]
    assert answer.status_code == 200
    assert answer.headers["x-asymspec-view"] == "both"
    assert answer.headers["x-asymspec-edits"] == "1"
    assert int(answer.headers["x-asymspec-compressed-tokens"]) < int(answer.headers["x-asymspec-full-tokens"])
    assert answer.content == completion(**REPORT)


def test_a_clients_own_views_pass_untouched(pair: Pair) -> None:
    own = b'{ "messages": [{"role":"user","content":"Hi"}], "asymspec":{"version":1,"edits":[]} ,"a":1e2 }\n'
    upstream, url = pair
    answer = ask(url, own)
    assert upstream.calls[0].content == own
    assert answer.headers["x-asymspec-view"] == "client"


def test_an_explicit_null_asks_for_a_plain_answer(pair: Pair) -> None:
    own = b'{"messages":[{"role":"user","content":"Hi"}],"asymspec":null,"temperature":0.7}'
    upstream, url = pair
    answer = ask(url, own)
    assert upstream.calls[0].content == own
    assert answer.headers["x-asymspec-view"] == "full"


def test_a_query_goes_along(pair: Pair) -> None:
    upstream, url = pair
    ask(url, path="/v1/chat/completions?api-version=1&a=%2F%3F")
    httpx.get(url + "/v1/models?limit=2")
    assert [got.query for got in upstream.got] == ["api-version=1&a=%2F%3F", "limit=2"]


def test_a_temperature_that_is_asked_for_is_the_upstreams_to_judge(pair: Pair) -> None:
    upstream, url = pair
    ask(url, {**CHAT, "temperature": 0.7})
    ask(url, {**CHAT, "temperature": None})
    assert [got.body["temperature"] for got in upstream.calls] == [0.7, 0]


def test_a_text_completion_has_one_view(pair: Pair) -> None:
    raw = b'{"model":"big", "prompt" : "Once"}'
    upstream, url = pair
    answer = ask(url, raw, "/v1/completions")
    assert upstream.calls[0].content == raw
    assert upstream.calls[0].path == "/v1/completions"
    assert answer.headers["x-asymspec-view"] == "full"


def test_a_file_reaches_the_drafter_as_text(pair: Pair) -> None:
    part = {"type": "file", "file": {"filename": "a.txt", "file_data": "data:text/plain;base64,SGVsbG8="}}
    messages = [{"role": "user", "content": [part, {"type": "text", "text": "Read it."}]}]
    upstream, url = pair
    ask(url, {**CHAT, "messages": messages, "user": "u"})
    body = upstream.calls[0].body
    texts = [part["text"] for part in body["messages"][0]["content"]]
    assert "Hello" in texts[0]
    assert texts[1] == "Read it."
    assert body["user"] == "u"


def test_a_stream_comes_as_its_upstream_sent_it(pair: Pair) -> None:
    _, url = pair
    answer = ask(url, {**CHAT, "stream": True})
    assert answer.content == b"".join(chunks("Hel", "lo", **REPORT))
    assert answer.headers["content-type"] == EVENTS[1]
    assert answer.headers["x-accel-buffering"] == "no"


def test_a_stream_is_not_held_back(pair: Pair) -> None:
    """The client has read the first event before the upstream sends the second."""
    upstream, url = pair
    upstream.answer = lambda got: Script([chunk({"content": "one"})], headers=[EVENTS], hang=True)
    with httpx.stream("POST", url + "/v1/chat/completions", json={**CHAT, "stream": True}) as answer:
        assert next(answer.iter_raw()) == chunk({"content": "one"})


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r"])
@pytest.mark.parametrize("size", [1, 3, 1_000])
def test_events_that_arrive_in_pieces_leave_whole(pair: Pair, end: bytes, size: int) -> None:
    upstream, url = pair
    events = [b": waiting\n\n", *chunks("Grüße 😀", "\u2028", "a\\n\\nb", **REPORT)]
    whole = b"".join(events).replace(b"\n\n", end)
    pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
    upstream.answer = lambda got: Script([*pieces], headers=[EVENTS])
    assert ask(url, {**CHAT, "stream": True}).content == whole


numbers = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = {
    "asymspec",
    "temperature",
    "messages",
    "tools",
    "model",
    "stream",
    "max_tokens",
    "max_completion_tokens",
}


@settings(max_examples=40)
@given(
    fields=st.dictionaries(
        st.text(max_size=12).filter(lambda name: name not in NAMES), json_values, max_size=5
    ),
    indent=st.sampled_from([None, 0, 2]),
    is_ascii=st.booleans(),
    edges=st.sampled_from([b"", b"\n", b"\r\n\t "]),
    text=st.text(max_size=30),
)
def test_what_a_client_sends_reaches_the_upstream_byte_for_byte(
    shared_pair: Pair,
    fields: dict[str, Any],
    indent: int | None,
    is_ascii: bool,
    edges: bytes,
    text: str,
) -> None:
    upstream, url = shared_pair
    upstream.got.clear()
    upstream.answer = lambda got: Script([completion(**REPORT)])
    body = {**fields, "messages": [{"role": "user", "content": text, "x": fields}]}
    raw = edges + json.dumps(body, indent=indent, ensure_ascii=is_ascii).encode() + edges
    assert ask(url, raw).status_code == 200
    (got,) = upstream.calls
    assert got.content.startswith(raw.rstrip()[:-1].rstrip())
    sent = got.body
    assert {name: sent[name] for name in body} == json.loads(raw)
    assert sent.keys() - body.keys() == {"asymspec", "temperature"}


header_texts = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)


@settings(max_examples=30)
@given(
    answer=st.dictionaries(st.text(max_size=8), json_values, max_size=4),
    status=st.sampled_from([200, 400, 404, 422, 429, 500, 503]),
    value=header_texts,
)
def test_what_an_upstream_answers_reaches_the_client_byte_for_byte(
    shared_pair: Pair, answer: dict[str, Any], status: int, value: str
) -> None:
    upstream, url = shared_pair
    content = json.dumps(answer, indent=1, ensure_ascii=False).encode("utf-8", "surrogatepass")
    upstream.answer = lambda got: Script([content], status, [JSON, ("x-told", value), ("retry-after", "7")])
    got = ask(url)
    assert got.status_code == status
    assert got.content == content
    assert got.headers["x-told"] == value
    assert got.headers["retry-after"] == "7"


def test_an_error_that_is_no_json_passes_as_well(pair: Pair) -> None:
    upstream, url = pair
    upstream.answer = lambda got: Script([b"<h1>busy</h1>"], 503, [("content-type", "text/html")])
    answer = ask(url)
    assert (answer.status_code, answer.content) == (503, b"<h1>busy</h1>")
    assert answer.headers["content-type"] == "text/html"


def test_headers_of_a_hop_and_credentials_stay_behind(pair: Pair) -> None:
    sent = {
        "authorization": "Bearer client-key",
        "cookie": "session=1",
        "x-api-key": "client-key",
        "connection": "keep-alive, x-hop",
        "x-hop": "1",
        "te": "trailers",
        "x-forwarded-for": "10.0.0.1",
        "x-stainless-lang": "python",
        "openai-beta": "assistants",
        "accept-encoding": "gzip",
    }
    answered = [JSON, ("set-cookie", "a=1"), ("keep-alive", "timeout=5"), ("x-request-id", "theirs")]
    upstream, url = pair
    upstream.answer = lambda got: Script([completion(**REPORT)], headers=answered)
    answer = ask(url, headers=sent)
    ask(url)
    first, second = upstream.calls
    names = dict(first.headers)
    kept = {"x-stainless-lang", "openai-beta", "user-agent", "accept"}
    own = {"accept-encoding", "content-type", "content-length", "host", "x-request-id", "connection"}
    assert names.keys() <= kept | own
    assert kept <= names.keys() | {"connection"}
    assert names["accept-encoding"] == "identity"
    assert b"client-key" not in repr(first.headers).encode()
    assert second.header("cookie") is None  # no other client's either
    assert "set-cookie" not in answer.headers
    assert answer.headers["x-upstream-request-id"] == "theirs"
    assert answer.headers["x-request-id"] == names["x-request-id"]


def test_an_encoded_answer_passes_as_it_is(pair: Pair) -> None:
    packed = gzip.compress(completion(**REPORT))
    upstream, url = pair
    upstream.answer = lambda got: Script([packed], headers=[JSON, ("content-encoding", "gzip")])
    answer = ask(url)
    assert answer.json()["choices"][0]["message"]["content"] == "Hello"


def test_an_applications_gateway_can_be_mounted() -> None:
    with contextlib.ExitStack() as stack:
        app, address = stack.enter_context(scripted_upstream())
        inner = create_gateway(GatewayOptions(upstream=UpstreamOptions(address), api_keys=("k",)))

        @contextlib.asynccontextmanager
        async def lifespan(outer: Starlette) -> AsyncIterator[None]:
            yield
            await inner.state.close()  # nobody runs the lifespan of what is mounted

        outer = Starlette(routes=[Mount("/llm", inner)], lifespan=lifespan)
        url = stack.enter_context(running(outer))
        assert httpx.get(url + "/llm/health").status_code == 200
        assert ask(url + "/llm").status_code == 401
        assert ask(url + "/llm", headers={"authorization": "Bearer k"}).status_code == 200
        assert app.calls[0].path == "/v1/chat/completions"
