"""A gateway and its scripted upstream on real sockets of this machine."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import uvicorn

from asymspec_agents.gateway.app import create_gateway
from asymspec_agents.gateway.options import GatewayOptions, UpstreamOptions
from asymspec_agents.server.running import listen
from tests.gateway.scripted import ASYMSPEC, Upstream
from tests.server.serving import WAIT_S, eventually

__all__ = ["CHAT", "LONG", "WAIT_S", "apart", "ask", "eventually", "gateway", "running", "upstream"]

_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # unused, but quicker than reading every certificate

CHAT: dict[str, Any] = {"model": "big", "messages": [{"role": "user", "content": "Hello"}]}
LONG: dict[str, Any] = {
    "model": "big",
    "messages": [
        {"role": "system", "content": "You look things up."},
        {"role": "user", "content": "Which port does the service listen on?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": '{ "n" :1}'}}
            ],
        },
        {
            "role": "tool",
            "tool_call_id": "call_1",
            "content": "".join(
                f"Line {n} of the manual tells about nothing in particular.\n" for n in range(400)
            )
            + "The service listens on port 8123.\n",
        },
    ],
}


@contextlib.contextmanager
def running(app: Any, *, lifespan: str = "on", **settings: Any) -> Iterator[str]:
    """The address of an ASGI application served by uvicorn in a thread."""
    config = uvicorn.Config(
        app,
        lifespan=lifespan,  # type: ignore[arg-type]
        log_level="critical",
        server_header=False,
        timeout_graceful_shutdown=1,
        **settings,
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
            server.should_exit = True
            thread.join(WAIT_S)
            assert not thread.is_alive()


@contextlib.contextmanager
def upstream(info: Any = ASYMSPEC) -> Iterator[tuple[Upstream, str]]:
    """A scripted upstream and its address; `info` None: a plain server."""
    app = Upstream(info)
    with running(app) as url:
        yield app, url


@contextlib.contextmanager
def gateway(upstream_url: str | None, *, upstream_key: str | None = None, **options: Any) -> Iterator[str]:
    """The address of a gateway over an upstream; `check` and `recorder` go to the application."""
    extra = {name: options.pop(name) for name in ("check", "recorder", "compressor") if name in options}
    default = None if upstream_url is None else UpstreamOptions(upstream_url, upstream_key)
    app = create_gateway(GatewayOptions(upstream=default, **options), **extra)
    with running(app) as url:
        yield url


@contextlib.contextmanager
def apart(info: Any = ASYMSPEC, **options: Any) -> Iterator[tuple[Upstream, str]]:
    """A scripted upstream, and the address of a gateway over it."""
    with upstream(info) as (app, url), gateway(url, **options) as address:
        yield app, address


def ask(url: str, body: Any = CHAT, path: str = "/v1/chat/completions", **more: Any) -> httpx.Response:
    """The answer to a body; bytes go as they are."""
    given = {"content": body} if isinstance(body, bytes) else {"json": body}
    headers = {"content-type": "application/json", **more.pop("headers", {})}
    with httpx.Client(timeout=WAIT_S, verify=_NO_TLS) as client:
        return client.post(url + path, headers=headers, **given, **more)
