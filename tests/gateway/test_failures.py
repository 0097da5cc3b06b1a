"""Upstreams that are gone, die, hang, send garbage or redirect: a correct error for the client, in time."""

from __future__ import annotations

import contextlib
import gzip
import json
import time
from collections.abc import Callable

import httpx
import openai
import pytest

from tests.gateway.scripted import EVENTS, JSON, Script, Upstream, chunk, chunks, completion
from tests.gateway.serving import CHAT, apart, ask, eventually, gateway, upstream
from tests.odd_server import Call, free_port, odd_server

Pair = tuple[Upstream, str]

STREAM = {**CHAT, "stream": True}
SHORT = {"first_byte_s": 0.3, "idle_s": 0.3}


def error_code(answer: httpx.Response) -> tuple[int, str]:
    error = answer.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return answer.status_code, error["code"]


def stream_error(answer: httpx.Response) -> str:
    """The code of the error that ends a stream."""
    assert answer.status_code == 200
    *_, error, done, empty = answer.content.split(b"\n\n")
    assert (done, empty) == (b"data: [DONE]", b"")
    code: str = json.loads(error.removeprefix(b"data: "))["error"]["code"]
    return code


def test_an_upstream_that_is_not_there() -> None:
    with gateway(f"http://127.0.0.1:{free_port()}") as url:
        assert error_code(ask(url)) == (502, "upstream_unreachable")
        ready = httpx.get(url + "/ready")
        assert (ready.status_code, ready.json()["error"]["code"]) == (503, "not_ready")
        assert httpx.get(url + "/health").status_code == 200


def test_readiness_is_that_of_the_upstream_now() -> None:
    with contextlib.ExitStack() as stack:
        with upstream() as (_, address):
            url = stack.enter_context(gateway(address))
            assert httpx.get(url + "/ready").status_code == 200
            assert ask(url).status_code == 200
        eventually(lambda: httpx.get(url + "/ready").status_code == 503)
        assert error_code(ask(url)) == (502, "upstream_unreachable")
        assert httpx.get(url + "/health").status_code == 200


def test_a_stream_in_an_encoding_that_nobody_asked_for(pair: Pair) -> None:
    app, url = pair
    packed = gzip.compress(b"".join(chunks("a")))
    app.answer = lambda got: Script([packed], headers=[EVENTS, ("content-encoding", "gzip")])
    assert error_code(ask(url, STREAM)) == (502, "upstream_broken")


@pytest.mark.parametrize("body", [CHAT, STREAM])
def test_silence_before_an_answer(body: object) -> None:
    with apart(**SHORT) as (app, url):
        app.answer = lambda got: Script(hangs_before=True)
        assert error_code(ask(url, body)) == (504, "upstream_timeout")
        eventually(lambda: app.calls[0].end == "left")


def test_silence_before_the_first_event() -> None:
    with apart(**SHORT) as (app, url):
        app.answer = lambda got: Script(headers=[EVENTS], hang=True)
        assert stream_error(ask(url, STREAM)) == "upstream_timeout"
        eventually(lambda: app.calls[0].end == "left")


def test_silence_within_an_answer() -> None:
    with apart(**SHORT) as (app, url):
        app.answer = lambda got: Script([chunk({"content": "a"})], headers=[EVENTS], hang=True)
        answer = ask(url, STREAM)
        app.answer = lambda got: Script([b'{"choices":'], hang=True)
        assert error_code(ask(url)) == (504, "upstream_timeout")
    assert answer.content.startswith(chunk({"content": "a"}))
    assert stream_error(answer) == "upstream_timeout"


def test_pauses_below_the_limit_are_no_silence() -> None:
    pieces = [piece for event in chunks("a", "b", "c", asymspec={}) for piece in (event, 0.5)]
    with apart(first_byte_s=1.4, idle_s=1.4) as (app, url):  # all of them take longer than that
        app.answer = lambda got: Script(pieces, headers=[EVENTS])
        assert ask(url, STREAM).content == b"".join(chunks("a", "b", "c", asymspec={}))


def test_an_upstream_that_dies_within_a_stream(pair: Pair) -> None:
    app, url = pair
    app.answer = lambda got: Script([chunk({"content": "a"}), b'data: {"id":'], headers=[EVENTS], cut=True)
    answer = ask(url, STREAM)
    assert answer.content.startswith(chunk({"content": "a"}) + b'data: {"error"')  # no half of an event
    assert stream_error(answer) == "upstream_broken"


def test_an_upstream_that_dies_within_a_whole_answer(pair: Pair) -> None:
    app, url = pair
    app.answer = lambda got: Script([completion()[:20]], headers=[JSON, ("content-length", "900")], cut=True)
    assert error_code(ask(url)) == (502, "upstream_broken")


@pytest.mark.parametrize("last", [b"", b": waiting\n\n", b"data: {}\n\n"])
def test_a_stream_that_ends_before_its_answer_does(last: bytes, pair: Pair) -> None:
    app, url = pair
    app.answer = lambda got: Script([chunk({"content": "a"}), last], headers=[EVENTS])
    assert stream_error(ask(url, STREAM)) == "upstream_broken"


def test_a_stream_without_its_last_blank_line_or_done(pair: Pair) -> None:
    whole = b"".join(chunks("a", asymspec={}))
    app, url = pair
    app.answer = lambda got: Script([whole.rstrip()], headers=[EVENTS])
    assert ask(url, STREAM).content == whole
    app.answer = lambda got: Script([whole.removesuffix(b"data: [DONE]\n\n")], headers=[EVENTS])
    assert ask(url, STREAM).content == whole.removesuffix(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    "garbage", [b"data: no json\n\n", b"data: [1]\n\n", b'data: {"a":\n\n', b"data: \xff\n\n"]
)
def test_garbage_within_a_stream(garbage: bytes, pair: Pair) -> None:
    app, url = pair
    app.answer = lambda got: Script([chunk({"content": "a"}), garbage], headers=[EVENTS], hang=True)
    answer = ask(url, STREAM)
    assert garbage not in answer.content
    assert stream_error(answer) == "upstream_broken"


@pytest.mark.parametrize("garbage", [b"", b"<html>", b"[]", b"\xff\xfe", b"{" * 100_000])
def test_garbage_as_a_whole_answer(garbage: bytes, pair: Pair) -> None:
    app, url = pair
    app.answer = lambda got: Script([garbage])
    assert error_code(ask(url)) == (502, "upstream_broken")


def hang_up(call: Call) -> None:
    """Not one byte."""


def no_http(call: Call) -> None:
    call.send(b"\x00\x01SSH-2.0-OpenSSH_9.6\r\n\r\n")


def two_lengths(call: Call) -> None:
    call.send(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 9\r\n\r\n{}{}{}{}{")


def bad_chunk(call: Call) -> None:
    call.send(
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}"
    )


def split_header(call: Call) -> None:
    call.send(b"HTTP/1.1 200 OK\r\nx-a: b\rset-cookie: c=d\r\ncontent-length: 2\r\n\r\n{}")


@pytest.mark.parametrize("handler", [hang_up, no_http, two_lengths, bad_chunk, split_header])
def test_answers_that_are_no_http(handler: Callable[[Call], None]) -> None:
    with odd_server(handler) as server, gateway(server.url) as url:
        assert error_code(ask(url)) == (502, "upstream_broken")


def test_a_refusal_to_work_comes_through_with_its_pause(pair: Pair) -> None:
    body = b'{"error":{"message":"slow down","type":"rate","param":null,"code":null}}'
    app, url = pair
    app.answer = lambda got: Script([body], 429, [JSON, ("retry-after", "3"), ("retry-after-ms", "2500")])
    answer = ask(url, STREAM)
    assert len(app.calls) == 1  # whether to try again is the client's to say
    assert (answer.status_code, answer.content) == (429, body)
    assert answer.headers["retry-after"] == "3"
    assert answer.headers["retry-after-ms"] == "2500"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    with apart() as (trap, trap_url), apart() as (app, url):
        app.answer = lambda got: Script(
            [b"{}"], status, [("location", trap_url + "/v1/chat/completions"), JSON]
        )
        answer = ask(url)
        assert error_code(answer) == (502, "upstream_redirect")
        assert "location" not in answer.headers
        assert not trap.got


def test_the_gateways_own_key_is_no_concern_of_its_client() -> None:
    body = b'{"error":{"message":"Incorrect API key provided: gate***key"}}'
    with apart(upstream_key="gateway-key") as (app, url):
        app.answer = lambda got: Script([body], 401)
        answer = ask(url)
    assert error_code(answer) == (502, "upstream_refused_key")
    assert "gate***" not in answer.text


def test_clients_hear_of_a_broken_stream(pair: Pair) -> None:
    app, url = pair
    app.answer = lambda got: Script([chunk({"content": "a"})], headers=[EVENTS], cut=True)
    client = openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)
    stream = client.chat.completions.create(
        model="big", messages=[{"role": "user", "content": "Hi"}], stream=True
    )
    assert next(stream).choices[0].delta.content == "a"
    with pytest.raises(openai.APIError, match="went away"):
        next(stream)
    stream.close()
    client.close()


def test_slow_upstreams_do_not_hold_up_others(pair: Pair) -> None:
    app, url = pair
    usual = app.answer
    app.answer = lambda got: Script(hangs_before=True) if got.body.get("x_slow") else usual(got)
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(url + "/v1/chat/completions", json={**CHAT, "x_slow": 1}, timeout=0.3)
    started_s = time.monotonic()
    assert ask(url).status_code == 200
    assert time.monotonic() - started_s < 30


A = chunk({"content": "a"})
DONE = b"data: [DONE]\n\n"
TEXT = b'data: {"choices":[{"index":0,"text":"a","finish_reason":null}]}\n\n'
TWO = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"},{"index":1,"delta":{}}]}\n\n'


@pytest.mark.parametrize(
    "pieces",
    [
        [A, b"<html>boo</html>\n\n", DONE],
        [A + b"Internal Server Error\n\n" + chunk({}, "stop"), DONE],
        [A, b"data: {nope\n\n", DONE],
        [A, b"data: [1]\n\n", DONE],
        [A + DONE],
        [A, chunk({}, ""), DONE],
        [TWO + DONE],
        [TEXT, DONE],
    ],
)
def test_streams_that_hold_what_is_no_answer_end_with_an_error(pair: Pair, pieces: list[bytes]) -> None:
    app, url = pair
    app.answer = lambda got: Script([*pieces], headers=[EVENTS])
    content = ask(url, STREAM).content
    events = content.split(b"\n\n")
    assert content.startswith(pieces[0][:40])
    assert events[-2:] == [b"data: [DONE]", b""]
    assert json.loads(events[-3].removeprefix(b"data: "))["error"]["code"] == "upstream_broken"
    assert content.count(b"[DONE]") == 1
    assert "upstream_broken" in httpx.get(url + "/metrics").text


def test_well_formed_events_pass_whatever_they_say(pair: Pair) -> None:
    app, url = pair
    whole = b"".join(
        [
            b"\xef\xbb\xbf: hello\n\nevent: x\r\nid: 5\r\nretry: 1\r\n\r\ndata\n\n",
            b'data: {"x_other":[1]}\n\n',
            b'event: later\ndata: {"object":"x.y","choices":[]}\n\n',
            *chunks("a", asymspec={}),
        ]
    )
    app.answer = lambda got: Script([whole], headers=[EVENTS])
    assert ask(url, STREAM).content == whole
