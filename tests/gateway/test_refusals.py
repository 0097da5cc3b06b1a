"""What a gateway refuses before any upstream hears of it."""

from __future__ import annotations

import contextlib
import json
import re
import socket

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.gateway.scripted import Upstream
from tests.gateway.serving import CHAT, WAIT_S, apart, ask

Pair = tuple[Upstream, str]
BODY = json.dumps(CHAT).encode()
POST = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
CLOSE = b"host: a\r\nconnection: close"
# What a proxy that took the other length for true would read as a request of its own.
SMUGGLED = b"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\nx-smuggled: 1\r\n\r\n"


SILENCE_S = 10.0  # reached only by a connection that stays open, which none of these tests wants


def exchange(url: str, data: bytes) -> bytes:
    """Everything that comes back until the gateway closes the connection, or is silent for a while."""
    address = httpx.URL(url)
    with socket.create_connection((address.host, address.port), timeout=SILENCE_S) as connection:
        connection.sendall(data)
        answer = b""
        with contextlib.suppress(TimeoutError):
            while piece := connection.recv(65_536):
                answer += piece
    return answer


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3})", answer)]


@pytest.mark.parametrize(
    "framing",
    [
        b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n",
        b"content-length: 0\r\ncontent-length: 90\r\n\r\n",
        b"content-length: 0, 90\r\n\r\n",
        b"content-length: -1\r\n\r\n",
        b"content-length: +2\r\n\r\n{}",
        b"content-length: 0x2\r\n\r\n{}",
        b"content-length: 1_0\r\n\r\n{}",
        b"content-length: \xb2\r\n\r\n{}",
        b"content-length : 2\r\n\r\n{}",
        b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
        b"transfer-encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n-2\r\n{}\r\n0\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\n2\r\n{}{}\r\n0\r\n\r\n",
        b"x-a: b\rx-c: d\r\n\r\n",
        b"x-a: b\x00\r\n\r\n",
        b"x a: b\r\n\r\n",
        b"no header at all\r\n\r\n",
    ],
)
def test_ambiguous_framing_is_refused(pair: Pair, framing: bytes) -> None:
    upstream, url = pair
    (status,) = statuses(exchange(url, POST + framing + SMUGGLED))
    assert 400 <= status < 500
    assert not upstream.got


def test_a_second_request_counts_from_where_the_first_one_ends(pair: Pair) -> None:
    upstream, url = pair
    one = POST + f"content-length: {len(BODY)}\r\n\r\n".encode() + BODY
    assert statuses(exchange(url, one + one.replace(b"host: a", CLOSE))) == [200, 200]
    assert len(upstream.calls) == 2


def test_a_chunked_body_is_read(pair: Pair) -> None:
    upstream, url = pair
    pieces = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (BODY[:7], BODY[7:]))
    head = POST.replace(b"host: a", CLOSE) + b"transfer-encoding: chunked\r\n\r\n"
    answer = exchange(url, head + pieces + b"0\r\n\r\n")
    assert statuses(answer) == [200]
    assert upstream.calls[0].header("transfer-encoding") is None
    assert upstream.calls[0].header("content-length") == str(len(upstream.calls[0].content))


@pytest.mark.parametrize(
    "target", [b"http://10.0.0.1/v1/models", b"//10.0.0.1/v1/models", b"*", b"/../v1/models"]
)
def test_the_upstream_is_never_the_clients_choice(pair: Pair, target: bytes) -> None:
    upstream, url = pair
    answer = exchange(url, b"GET %s HTTP/1.1\r\nhost: 10.0.0.1\r\nconnection: close\r\n\r\n" % target)
    assert statuses(answer)[0] in (200, 400, 404)
    assert all(got.header("host") != "10.0.0.1" for got in upstream.got)


def test_upgrades_are_no_way_around(pair: Pair) -> None:
    upstream, url = pair
    head = b"GET /v1/models HTTP/1.1\r\nhost: a\r\nconnection: upgrade, close\r\nupgrade: websocket\r\n\r\n"
    assert statuses(exchange(url, head))[0] != 101
    assert all(got.header("upgrade") is None for got in upstream.got)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/v1/embeddings", 404),
        ("POST", "/v1/chat/completions/", 404),
        ("GET", "/", 404),
        ("GET", "/v1/files/../models", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/v1/models/big", 405),
        ("POST", "/health", 405),
    ],
)
def test_unknown_routes(pair: Pair, method: str, path: str, status: int) -> None:
    upstream, url = pair
    answer = exchange(
        url, f"{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()
    )
    assert statuses(answer) == [status]
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"
    assert not upstream.got


def test_bodies_over_the_limit() -> None:
    with apart(max_body_bytes=1_000) as (upstream, url):
        long = json.dumps({**CHAT, "x": "a" * 1_000}).encode()
        declared = ask(url, long)
        chunked = httpx.post(
            url + "/v1/chat/completions",
            content=iter([long]),
            headers={"content-type": "application/json"},
            timeout=WAIT_S,
        )
        assert ask(url).status_code == 200
    for answer in (declared, chunked):
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "body_too_large")
    assert len(upstream.calls) == 1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'{"messages": NaN}',
        b"\xff",
        b"{" * 10_000,
        b"[" * 100_000,
        b'{"messages":[],"messages":[{"role":"user","content":"other"}]}',
        b'{"messages":[{"role":"user","content":"shown","content":"meant"}]}',
        b'{"model":"big"}',
        b'{"messages":"hello"}',
        b'{"messages":[{"content":"no role"}]}',
        b'{"messages":[{"role":"user","content":7}]}',
    ],
)
def test_bodies_that_are_no_calls(pair: Pair, body: bytes) -> None:
    upstream, url = pair
    answer = ask(url, body)
    assert answer.status_code == 400
    assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
    assert not upstream.got


def test_other_contents_than_json(pair: Pair) -> None:
    upstream, url = pair
    for headers in ({"content-type": "text/plain"}, {"content-encoding": "gzip"}):
        assert ask(url, BODY, headers=headers).status_code == 415
    assert not upstream.got


@settings(max_examples=60)
@given(body=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_get_an_answer(shared_pair: Pair, body: bytes) -> None:
    answer = ask(shared_pair[1], body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]


def test_what_is_refused_does_not_repeat_contents(pair: Pair) -> None:
    body = {"messages": [{"role": "user", "content": {"a": "secret-word"}}]}
    assert "secret-word" not in ask(pair[1], body).text
