"""Connections to an upstream serve many clients, and none of them another one's answer."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.gateway.scripted import ASYMSPEC, completion
from tests.gateway.serving import CHAT, ask, gateway


def _whole(body: bytes) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


EXTRA = _whole(completion("FOR SOMEBODY ELSE", asymspec={"version": 1}))


class RawUpstream:
    """Answers over keep-alive connections; behind the answer to `extra` comes another one."""

    def __init__(self) -> None:
        self.num_connections = 0
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            self.num_connections += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, connection.makefile("rb") as reading:
            while (first := reading.readline()).strip():
                length = 0
                while line := reading.readline().strip().lower():
                    if line.startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                body = reading.read(length)
                self._answer(connection, first, body)

    def _answer(self, connection: socket.socket, first: bytes, body: bytes) -> None:
        if b"/v1/asymspec" in first:
            connection.sendall(_whole(json.dumps(ASYMSPEC).encode()))
            return
        word = json.loads(body)["messages"][-1]["content"]
        answer = _whole(completion(word, asymspec={"version": 1}))
        if word == "together":
            connection.sendall(answer + EXTRA)
        elif word == "half":
            connection.sendall(answer + EXTRA[:30])
        else:
            connection.sendall(answer)
            if word == "later":  # while nobody asks
                time.sleep(0.02)
                connection.sendall(EXTRA)


@pytest.fixture
def raw() -> Iterator[RawUpstream]:
    upstream = RawUpstream()
    yield upstream
    upstream.close()


def said(url: str, word: str) -> str:
    answer = ask(url, {**CHAT, "messages": [{"role": "user", "content": word}]})
    text: str = answer.json()["choices"][0]["message"]["content"]
    return text


@pytest.mark.parametrize("how", ["together", "later", "half"])
def test_bytes_behind_an_answer_are_nobodys_answer(raw: RawUpstream, how: str) -> None:
    with gateway(raw.url) as url:
        for _ in range(3):
            assert said(url, how) == how
            time.sleep(0.3 if how == "later" else 0)
            assert said(url, "mine") == "mine"
    assert raw.num_connections >= 4


def test_clean_connections_are_used_again(raw: RawUpstream) -> None:
    with gateway(raw.url) as url:
        for _ in range(5):
            assert said(url, "mine") == "mine"
    assert raw.num_connections == 1
