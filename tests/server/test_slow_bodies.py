"""Bodies that stop coming: whoever waits for them hears why, and nothing is held for ever."""

from __future__ import annotations

import json
import socket
import time
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from asymspec_agents.server import body

from .serving import CHAT, WAIT_S, HeldBackend, serving

JSON = "application/json"


def answer_to(
    url: str, declared: str, sent: bytes = b"", *, kind: str = JSON
) -> tuple[int, dict[str, str], Any]:
    """Status, headers and error of a request whose body ends before it is whole; the connection is closed."""
    host, port = urlsplit(url).hostname, urlsplit(url).port
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: {kind}\r\n{declared}\r\n\r\n"
    with socket.create_connection((host, port), timeout=WAIT_S) as client:
        client.sendall(head.encode() + sent)
        came = b""
        while piece := client.recv(65_536):  # to the end: the server closes
            came += piece
    lines, _, content = came.decode().partition("\r\n\r\n")
    status, *rest = lines.split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return int(status.split()[1]), headers, json.loads(content)["error"]


@pytest.mark.parametrize("size", [1_001, 100 * 1024**2, 10**18, 10**19])
def test_a_body_declared_too_long_is_refused_though_it_never_comes(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "DRAIN_S", 0.1)
    with serving(HeldBackend(is_held=False), max_body_bytes=1_000) as url:
        for sent in (b"", b" " * 500):
            status, headers, error = answer_to(url, f"Content-Length: {size}", sent)
            assert (status, error["code"]) == (413, "body_too_large")
            assert f"{size:,} bytes" in error["message"]
            assert headers["connection"] == "close"
        status, _, error = answer_to(url, f"Content-Length: {size}", kind="text/plain")
        assert (status, error["code"]) == (415, "unsupported_media_type")
        assert httpx.post(f"{url}/v1/chat/completions", json=CHAT, timeout=WAIT_S).status_code == 200


@pytest.mark.parametrize(
    ("declared", "sent", "num_bytes"),
    [("Content-Length: 900", b"", 0), ("Transfer-Encoding: chunked", b'5\r\n{"mes\r\n', 5)],
)
def test_a_body_that_stops_coming_is_given_up(
    declared: str, sent: bytes, num_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(body, "STALL_S", 0.1)
    with serving(HeldBackend(is_held=False)) as url:
        status, headers, error = answer_to(url, declared, sent)
        assert (status, error["code"]) == (408, "request_timeout")
        assert f"after {num_bytes} bytes" in error["message"]
        assert headers["connection"] == "close"
        assert httpx.get(f"{url}/health", timeout=WAIT_S).json() == {"status": "ok", "num_requests": 0}


def test_a_slow_body_that_keeps_coming_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "STALL_S", 5.0)
    content = json.dumps(CHAT).encode()

    def slowly() -> Any:
        for start in range(0, len(content), 10):
            time.sleep(0.01)
            yield content[start : start + 10]

    with serving(HeldBackend(is_held=False)) as url:
        answer = httpx.post(
            f"{url}/v1/chat/completions", content=slowly(), headers={"content-type": JSON}, timeout=WAIT_S
        )
        assert answer.status_code == 200
