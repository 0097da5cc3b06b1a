"""Upstreams that do not speak AsymSpec: refused, passed to, or sent the compressed view, as configured."""

from __future__ import annotations

import json

import pytest

from tests.gateway.scripted import ASYMSPEC, EVENTS, Got, Script, chunks, completion, completion_for
from tests.gateway.serving import CHAT, LONG, apart, ask, eventually


def test_it_is_refused_unless_configured() -> None:
    with apart(None) as (upstream, url):
        answer = ask(url)
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "upstream_not_asymspec"
    assert not upstream.calls


def test_passing_on_changes_nothing() -> None:
    raw = json.dumps(LONG, indent=3).encode()
    with apart(None, on_plain_upstream="pass") as (upstream, url):
        answer = ask(url, raw)
    assert upstream.calls[0].content == raw
    assert answer.content == completion()
    assert answer.headers["x-asymspec-view"] == "full"


def test_the_compressed_view_alone_and_the_answer_says_so() -> None:
    with apart(None, on_plain_upstream="compress") as (upstream, url):
        answer = ask(url, {**LONG, "x_unknown": [1]})
    body = upstream.calls[0].body
    assert "asymspec" not in body
    assert body["x_unknown"] == [1]
    assert body["messages"][:3] == LONG["messages"][:3]
    shown = body["messages"][3]
    assert shown["tool_call_id"] == "call_1"
    assert "8123" in shown["content"]
    assert len(shown["content"]) < len(LONG["messages"][3]["content"]) / 2
    assert answer.headers["x-asymspec-view"] == "compressed"
    report = answer.json()["asymspec"]
    assert report["mode"] == "floor"
    assert report["edits"] == 1
    assert report["compressed_tokens"] < report["full_tokens"]
    assert answer.content.startswith(completion()[:-1])


def test_a_streams_last_chunk_says_so() -> None:
    with apart(None, on_plain_upstream="compress") as (_, url):
        answer = ask(url, {**LONG, "stream": True})
    sent, got = chunks("Hel", "lo"), answer.content.split(b"\n\n")
    assert [event + b"\n\n" for event in got[:3]] == sent[:3]
    assert got[4:] == [b"data: [DONE]", b""]
    last = json.loads(got[3].removeprefix(b"data: "))
    assert last.pop("asymspec")["mode"] == "floor"
    assert last == json.loads(sent[3].removeprefix(b"data: "))


def test_the_report_is_added_once() -> None:
    whole = [
        *chunks("a")[:-1],
        b'data: {"choices":[],"usage":{"prompt_tokens":1}}\r\n\r\n',
        b"data: [DONE]\n\n",
    ]
    with apart(None, on_plain_upstream="compress") as (upstream, url):
        upstream.answer = lambda got: Script([b"".join(whole)], headers=[EVENTS])
        answer = ask(url, {**CHAT, "stream": True})
    assert answer.content.count(b'"asymspec"') == 1
    assert answer.content.endswith(b"".join(whole[-2:]))


@pytest.mark.parametrize("before", ["asymspec", "plain"])
def test_what_an_upstream_is_gets_asked_again(before: str) -> None:
    infos = {"asymspec": ASYMSPEC, "plain": None}
    with apart(infos[before], on_plain_upstream="pass", handshake_s=0.05) as (upstream, url):
        first = ask(url).headers["x-asymspec-view"]
        upstream.info = None if before == "asymspec" else ASYMSPEC
        eventually(lambda: ask(url).headers["x-asymspec-view"] != first)


def test_its_word_is_kept_meanwhile() -> None:
    with apart() as (upstream, url):
        for _ in range(5):
            ask(url)
    assert upstream.num_handshakes == 1


def test_an_answer_without_a_report_has_it_asked_at_once() -> None:
    with apart(on_plain_upstream="pass") as (upstream, url):
        upstream.answer = lambda got: Script([completion()])
        ask(url)
        upstream.info = None
        assert ask(url).headers["x-asymspec-view"] == "full"
    assert upstream.num_handshakes == 2


def test_another_protocol_version_is_no_asymspec() -> None:
    with apart({**ASYMSPEC, "version": 2}) as (_, url):
        assert ask(url).json()["error"]["code"] == "upstream_not_asymspec"


def test_views_stay_within_the_upstreams_limits() -> None:
    limited = {**ASYMSPEC, "max_verifier_tokens": 2_600, "max_drafter_tokens": 3_000}
    with apart(limited) as (upstream, url):
        answer = ask(url, {**LONG, "max_tokens": 1_500})
        too_long = ask(url, {**LONG, "max_tokens": 2_590})
    assert int(answer.headers["x-asymspec-compressed-tokens"]) <= 600
    assert int(answer.headers["x-asymspec-drafter-cuts"]) == 1
    full = upstream.calls[0].body["messages"]
    assert len(full[3]["content"]) < len(LONG["messages"][3]["content"])
    assert too_long.status_code == 400
    assert too_long.json()["error"]["code"] == "context_length_exceeded"


def test_an_upstream_that_counts_is_asked_near_its_limit_only() -> None:
    limited = {**ASYMSPEC, "max_verifier_tokens": 2_600, "tokenize": True}

    def answer(got: Got) -> Script:
        if got.path == "/tokenize":
            return Script([json.dumps({"count": len(got.content) // 4}).encode()])
        return completion_for(got)

    with apart(limited, upstream_key="gateway-key") as (upstream, url):
        upstream.answer = answer
        assert ask(url).status_code == 200
        assert not [got for got in upstream.got if got.path == "/tokenize"]
        assert ask(url, {**LONG, "max_tokens": 1_500}).status_code == 200
        asked = [got for got in upstream.got if got.path == "/tokenize"]
    assert asked
    assert asked[0].header("authorization") == "Bearer gateway-key"


@pytest.mark.parametrize("how", ["pass", "compress"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/tokenize"])
def test_a_plain_server_gets_no_asymspec_object(how: str, path: str) -> None:
    with apart(None, on_plain_upstream=how) as (upstream, url):
        answer = ask(url, {**LONG, "prompt": "x", "asymspec": None, "x_unknown": 1}, path)
    assert upstream.got[0].body == {**LONG, "prompt": "x", "x_unknown": 1}
    assert answer.headers["x-asymspec-view"] == "full"


def test_where_the_compressed_view_is_sent_it_is_the_clients_own() -> None:
    edits = {"edits": [{"message": 3, "text": "port 8123"}]}
    messages = {"messages": CHAT["messages"]}
    with apart(None, on_plain_upstream="compress") as (upstream, url):
        edited = ask(url, {**LONG, "asymspec": edits})
        replaced = ask(url, {**LONG, "asymspec": messages})
        ask(url, {"prompt": "long", "asymspec": {"prompt": "short"}}, "/v1/completions")
        refused = ask(url, {**LONG, "asymspec": {"edits": [{"message": 9, "text": "x"}]}})
        no_object = ask(url, {**LONG, "asymspec": 5})
    first, second, third = (got.body for got in upstream.calls)
    assert first == {
        **LONG,
        "messages": [*LONG["messages"][:3], {**LONG["messages"][3], "content": "port 8123"}],
    }
    assert second["messages"] == CHAT["messages"]
    assert third == {"prompt": "short"}
    for answer in (edited, replaced):
        assert answer.headers["x-asymspec-view"] == "compressed"
        assert answer.json()["asymspec"]["mode"] == "floor"
    assert (refused.status_code, no_object.status_code) == (400, 400)


def test_where_calls_pass_the_clients_view_is_left_out() -> None:
    with apart(None, on_plain_upstream="pass") as (upstream, url):
        ask(url, {**LONG, "asymspec": {"edits": []}})
    assert upstream.calls[0].body == LONG
