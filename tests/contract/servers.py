"""An AsymSpec server, or any other ASGI app, on a free port of this machine, and what it was sent."""

import contextlib
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn

from asymspec_agents.server.app import create_app
from asymspec_agents.server.options import ServerOptions
from asymspec_agents.server.running import listen

START_S = 20.0


@dataclass
class Served:
    """A running server: the address of its API, the bodies and the paths it was sent."""

    url: str
    bodies: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


class Recording:
    """Hands every request on and keeps its path and JSON body."""

    def __init__(self, app, served: Served) -> None:
        self._app = app
        self._served = served

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        self._served.paths.append(scope["path"])
        body = b""

        async def kept():
            nonlocal body
            message = await receive()
            if message["type"] == "http.request":
                body += message.get("body", b"")
                if not message.get("more_body") and body:
                    self._served.bodies.append({"path": scope["path"], **json.loads(body)})
            return message

        await self._app(scope, kept, send)


@contextlib.contextmanager
def served_app(app) -> Iterator[Served]:
    """The app behind a real socket, until the block ends."""
    bound = listen("127.0.0.1", 0)
    served = Served(f"http://127.0.0.1:{bound.getsockname()[1]}/v1")
    config = uvicorn.Config(
        Recording(app, served), lifespan="on", log_level="warning", ws="none", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    deadline = time.monotonic() + START_S
    while not server.started and thread.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    try:
        yield served
    finally:
        server.should_exit = True
        thread.join(START_S)
        bound.close()


@contextlib.contextmanager
def served(backend, *, api_keys=(), **more) -> Iterator[Served]:
    """The backend behind `asymspec serve`'s own application."""
    app = create_app({backend.capabilities.verifier: backend, **more}, ServerOptions(api_keys=api_keys))
    with served_app(app) as running:
        yield running
