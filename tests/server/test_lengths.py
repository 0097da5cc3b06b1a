"""A request tells its body's length once, however it tells it twice."""

from __future__ import annotations

import asyncio
import socket
import threading

import pytest
import uvicorn

from asymspec_agents.server.running import listen
from asymspec_agents.server.strictness import strict_protocol
from tests.server.serving import WAIT_S, eventually


async def echo(scope: dict, receive: object, send: object) -> None:  # type: ignore[type-arg]
    await send({"type": "http.response.start", "status": 204, "headers": []})  # type: ignore[operator]
    await send({"type": "http.response.body", "body": b""})  # type: ignore[operator]


def statuses(data: bytes) -> list[bytes]:
    """The statuses of all answers to these bytes."""
    config = uvicorn.Config(
        echo,
        http=strict_protocol(),
        lifespan="off",
        log_level="critical",
    )
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as bound:
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([bound])))
        thread.start()
        try:
            eventually(lambda: server.started)
            with socket.create_connection(bound.getsockname(), timeout=WAIT_S) as client:
                client.sendall(data)
                client.shutdown(socket.SHUT_WR)
                answer = b"".join(iter(lambda: client.recv(65_536), b""))
        finally:
            server.should_exit = True
            thread.join(WAIT_S)
    return [line.split()[1] for line in answer.split(b"\r\n") if line.startswith(b"HTTP/")]


HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"
GOOD = HEAD + b"Content-Length: 2\r\n\r\n{}"


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 2\r\nContent-Length: 2",
        b"Content-Length: 2, 2",
        b"content-length:2\r\nX: y\r\nCONTENT-LENGTH: 2",
    ],
)
def test_a_length_told_twice_is_refused(lengths: bytes) -> None:
    twice = HEAD + lengths + b"\r\n\r\n{}"
    assert statuses(twice + GOOD) == [b"400"]
    assert statuses(GOOD + twice) == [b"204", b"400"]


def test_a_body_may_say_what_it_likes() -> None:
    body = b"\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n"
    told = HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body
    assert statuses(told + GOOD) == [b"204", b"204"]
