"""Running a server: the socket first, then the models, then uvicorn until it is told to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import math
import signal
import socket
from collections.abc import Callable, Iterator

from starlette.applications import Starlette

from ..errors import ConfigurationError
from .strictness import strict_protocol

__all__ = ["is_loopback", "listen", "serve"]

GRACE_S = 5.0  # open requests get this long to end once the server is told to stop
FURTHER_GRACE_S = 5.0  # and this long to say that they were ended


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, so that a port in use shows before any model is loaded; port 0 picks a free one."""
    if not 0 <= port <= 65_535:
        raise ConfigurationError(f"port={port} must be from 0 to 65535")
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except OSError as error:
        raise ConfigurationError(f"host={host!r} is no address of this machine: {error}") from error
    bound = socket.socket(family, kind, protocol)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise _refusal(host, port, error) from error
    return bound


def _refusal(host: str, port: int, error: OSError) -> ConfigurationError:
    is_taken = error.errno == errno.EADDRINUSE
    advice = "is in use; give another --port, or stop what listens there" if is_taken else str(error)
    return ConfigurationError(f"port={port} on host={host!r}: {advice}")


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve(
    app: Starlette,
    bound: socket.socket,
    *,
    ready: Callable[[], None],
    end_open: Callable[[], None],
    grace_s: float | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM; `ready` is called once connections are accepted.

    Requests that run then have `grace_s` (None: GRACE_S) to end; after it `end_open` must end them. Needs the
    main thread. Raises ConfigurationError where another process has taken the port since it was bound.
    """
    import uvicorn

    open_s = GRACE_S if grace_s is None else grace_s

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if self.started:
                ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            asyncio.get_running_loop().call_later(open_s, end_open)
            await super().shutdown(sockets)

    config = uvicorn.Config(
        app,
        lifespan="on",
        http=strict_protocol(),
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=math.ceil(open_s + FURTHER_GRACE_S),
        timeout_keep_alive=75,
    )
    server = Server(config)
    try:
        bound.listen(config.backlog)
    except OSError as error:  # both may bind before either listens
        host, port = bound.getsockname()[:2]
        raise _refusal(host, port, error) from error
    # uvicorn raises the signal again when it is done; these take it, so that stopping is a return.
    with _handling((signal.SIGINT, signal.SIGTERM), lambda: setattr(server, "should_exit", True)):
        server.run(sockets=[bound])


@contextlib.contextmanager
def _handling(signals: tuple[signal.Signals, ...], act: Callable[[], None]) -> Iterator[None]:
    before = {number: signal.signal(number, lambda *_: act()) for number in signals}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
