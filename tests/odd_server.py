"""A server of a few lines that answers as a test tells it to, however oddly."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from asymspec_agents.errors import BackendError

__all__ = [
    "ANSWER",
    "HANDSHAKE",
    "Call",
    "OddServer",
    "chunk",
    "free_port",
    "odd_server",
    "outcome",
    "slowly",
    "sse",
]

HANDSHAKE = {"version": 1, "verifier": "big", "drafter": "small", "modes": ["asymspec"]}
REPORT = {"version": 1, "mode": "asymspec", "drafted": 2, "accepted": 1}
ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    "asymspec": REPORT,
}


def chunk(delta: Mapping[str, Any], finish_reason: str | None = None, **fields: Any) -> dict[str, Any]:
    """A chunk of a stream."""
    return {"choices": [{"index": 0, "delta": dict(delta), "finish_reason": finish_reason}], **fields}


def sse(*events: Mapping[str, Any] | str) -> bytes:
    """The events as a stream has them."""
    texts = (event if isinstance(event, str) else json.dumps(event) for event in events)
    return "".join(f"data: {text}\n\n" for text in texts).encode()


@dataclass
class Call:
    """One request and the connection that waits for its answer."""

    method: str
    path: str
    headers: Mapping[str, str]
    text: bytes
    connection: socket.socket

    @property
    def body(self) -> Any:
        return json.loads(self.text)

    def send(self, data: bytes) -> None:
        self.connection.sendall(data)

    def reply(self, body: object, status: int = 200, kind: str = "application/json", **headers: str) -> None:
        """A whole response."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.begin(status, kind, content_length=str(len(data)), **headers)
        self.send(data)

    def begin(self, status: int = 200, kind: str = "text/event-stream", **headers: str) -> None:
        """A response's head; without a length, its body ends with the connection."""
        lines = [f"HTTP/1.1 {status} Odd", f"content-type: {kind}", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.send("\r\n".join((*lines, "", "")).encode("latin-1"))

    def wait_until_left(self) -> bool:
        """Whether the client closes the connection."""
        self.connection.settimeout(10)
        try:
            return self.connection.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False


Handler = Callable[[Call], None]


@dataclass
class OddServer:
    """What was asked, and where to ask."""

    url: str
    calls: list[Call] = field(default_factory=list)
    left: threading.Event = field(default_factory=threading.Event)

    @property
    def posts(self) -> list[Call]:
        """The calls that were no questions about the server."""
        return [call for call in self.calls if call.method == "POST"]


@contextlib.contextmanager
def odd_server(handler: Handler, *, handshake: object = HANDSHAKE) -> Iterator[OddServer]:
    """A server whose POSTs the handler answers; `handshake` is what it says of itself, None: ask the handler.

    `left` is set when a handler that waits for it sees its client go.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host, port = listener.getsockname()
        server = OddServer(f"http://{host}:{port}")
        threads: list[threading.Thread] = []
        connections: list[socket.socket] = []

        def answer(connection: socket.socket) -> None:
            with connection, contextlib.suppress(OSError):
                call = _read(connection)
                if call is None:
                    return
                server.calls.append(call)
                if handshake is not None and call.path.endswith("/v1/asymspec"):
                    call.reply(handshake)
                else:
                    handler(call)

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    connections.append(connection)
                    threads.append(threading.Thread(target=answer, args=(connection,), daemon=True))
                    threads[-1].start()

        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield server
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            for connection in connections:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            for thread in (accepting, *threads):
                thread.join(10)


def _read(connection: socket.socket) -> Call | None:
    data = b""
    while b"\r\n\r\n" not in data:
        more = connection.recv(65_536)
        if not more:
            return None
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", 0)):
        body += connection.recv(65_536)
    method, path, _ = first.split(" ")
    return Call(method, path, headers, body, connection)


def slowly(call: Call, pieces: list[bytes], pause_s: float) -> None:
    """Sends the pieces with a pause before each."""
    for piece in pieces:
        time.sleep(pause_s)
        call.send(piece)


def free_port() -> int:
    """A port at which nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def outcome(call: Callable[[], object]) -> BaseException:
    """The exception that the call raises."""
    with pytest.raises(BackendError) as caught:
        call()
    return caught.value
