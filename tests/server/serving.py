"""A server in this process for tests, and a backend whose answers a test holds back step by step."""

from __future__ import annotations

import contextlib
import functools
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import httpx
import uvicorn

from asymspec_agents.backends import Backend, Capabilities, ChatDelta, ChatRequest, Usage
from asymspec_agents.backends.request import AnyRequest
from asymspec_agents.errors import RequestAbortedError
from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.server.app import create_app
from asymspec_agents.server.options import ServerOptions
from asymspec_agents.server.running import listen

__all__ = [
    "CHAT",
    "WAIT_S",
    "HeldBackend",
    "ask_and_leave",
    "eventually",
    "get",
    "post",
    "serving",
    "text_of",
]

CHAT: Mapping[str, Any] = {"messages": [{"role": "user", "content": "Hello"}]}
WAIT_S = 60.0  # of anything that must come; long, as a busy machine may stand still for a while


@contextlib.contextmanager
def serving(backends: Mapping[str, Backend] | Backend, **options: Any) -> Iterator[str]:
    """The address of a server over these backends; it is stopped at the end, whatever still runs."""
    if isinstance(backends, Backend):
        backends = {backends.capabilities.verifier: backends}
    app = create_app(backends, ServerOptions(**options))
    config = uvicorn.Config(
        app, lifespan="on", log_level="critical", server_header=False, timeout_graceful_shutdown=WAIT_S
    )
    server = uvicorn.Server(config)
    with listen("127.0.0.1", 0) as bound:
        port = bound.getsockname()[1]
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, name="test-server")
        thread.start()
        try:
            eventually(lambda: server.started)
            yield f"http://127.0.0.1:{port}"
        finally:
            app.state.queue.give_up_all()
            server.should_exit = True
            thread.join(WAIT_S)
            assert not thread.is_alive()


def eventually(is_true: Callable[[], bool]) -> None:
    """Waits until it is; fails where it does not become so."""
    end = time.monotonic() + WAIT_S
    while not is_true():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)


class HeldBackend(Backend):
    """Answers every request with "one two three ", a word for each `let_go`; knows what became of each.

    `is_held` False: the words come at once. A request's abort ends it as in an engine.
    """

    def __init__(self, *, is_held: bool = True) -> None:
        self.requests: list[AnyRequest] = []
        self.ends: list[str] = []
        self._is_held = is_held
        self._steps = threading.Semaphore(0)

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(verifier="held", drafter="small", modes=("asymspec",))

    def let_go(self, num_words: int = 1) -> None:
        """Lets that many words out."""
        self._steps.release(num_words)

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        self.requests.append(request)
        end = "closed"
        try:
            for word in ("one ", "two ", "three "):
                while self._is_held and not self._steps.acquire(timeout=0.005):
                    if abort is not None and abort.is_set():
                        raise RequestAbortedError("aborted")
                yield ChatDelta(content=word)
            end = "whole"
            yield ChatDelta(
                finish_reason="stop",
                usage=Usage(7, 3, 2),
                report=None if request.asymspec is None else AsymSpecReport(drafted=4, accepted=3),
            )
        finally:
            if end == "closed" and abort is not None and abort.is_set():
                end = "aborted"  # also where the stream was closed before this looked
            self.ends.append(end)


get = functools.partial(httpx.get, timeout=WAIT_S)
post = functools.partial(httpx.post, timeout=WAIT_S)


def ask_and_leave(url: str, path: str, body: Mapping[str, Any], when: Callable[[], bool]) -> None:
    """Sends a request and closes the connection once `when` is true, whatever was answered until then."""
    address = httpx.URL(url)
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\n"
    with socket.create_connection((address.host, address.port)) as connection:
        connection.sendall(f"{head}content-length: {len(content)}\r\n\r\n".encode() + content)
        eventually(when)


def text_of(request: AnyRequest) -> str:
    """The full view's last text."""
    if isinstance(request, ChatRequest):
        return request.messages[-1].texts()[0]
    return str(request.prompt)
