"""The server under diagnosis: its address, who stands in between, and this package's own client to it."""

from __future__ import annotations

import ipaddress
import urllib.request
from collections.abc import Callable, Coroutine, Mapping
from functools import cached_property
from typing import Any, TypeVar

import httpx

from ..backends.connection_options import ConnectionOptions
from ..backends.http import HTTPBackend
from ..backends.remote import Remote
from ..wire.handshake import ServerInfo

__all__ = ["Target", "find_proxy"]

CONNECT_TIMEOUT_S = 10.0

_T = TypeVar("_T")


def find_proxy(url: str) -> str | None:
    """Host and port of the proxy that the system's settings put before `url`; None where there is none.

    The client follows the same settings (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY, NO_PROXY).
    """
    target = httpx.URL(url)
    proxies = urllib.request.getproxies()
    proxy = proxies.get(target.scheme) or proxies.get("all")
    if not proxy or urllib.request.proxy_bypass(target.host):
        return None
    try:
        place = httpx.URL(proxy if "://" in proxy else f"http://{proxy}")
    except httpx.InvalidURL:
        return "an address that is no URL"
    # No more than that: proxies' addresses often have a password in them.
    return f"{place.host}:{place.port}" if place.port else place.host


class Target:
    """A server by its address, asked with a key or without. Nothing is tried before a check does.

    `options` raises ConfigurationError for an address or key that can't be used. Close it when done.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None,
        timeout_s: float,
        *,
        proxy: Callable[[str], str | None] = find_proxy,
    ) -> None:
        self.given_url = url
        self.api_key = api_key
        self.timeout_s = timeout_s
        self._proxy = proxy
        self._opened: list[Callable[[], None]] = []

    @cached_property
    def options(self) -> ConnectionOptions:
        """How the server is reached; no retries, as a diagnosis wants to see the failure."""
        return ConnectionOptions(
            self.given_url,
            api_key=self.api_key,
            timeout_s=self.timeout_s,
            connect_timeout_s=min(CONNECT_TIMEOUT_S, self.timeout_s),
            max_retries=0,
        )

    @property
    def url(self) -> str:
        """The server's address without `/v1`."""
        return self.options.base_url

    @property
    def address(self) -> httpx.URL:
        """The address in its parts."""
        return httpx.URL(self.url)

    @property
    def port(self) -> int:
        """The port, the scheme's own where none is given."""
        return self.address.port or (443 if self.address.scheme == "https" else 80)

    @property
    def is_loopback(self) -> bool:
        """Whether the address means this machine."""
        host = self.address.host
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def proxy(self) -> str | None:
        """Host and port of the proxy in between."""
        return self._proxy(self.url)

    def get(self, path: str) -> Mapping[str, Any]:
        """The JSON object at a path. Raises what the client raises."""

        async def answer() -> Mapping[str, Any]:
            return await self._remote.connection().get(path)

        return self._run(answer())

    def text(self, path: str) -> str:
        """What stands at a path, as text."""

        async def answer() -> str:
            return await self._remote.connection().text(path)

        return self._run(answer())

    def post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        """The JSON object that answers a body."""

        async def answer() -> Mapping[str, Any]:
            return await self._remote.connection().post(path, body)

        return self._run(answer())

    def info(self) -> ServerInfo:
        """The handshake, asked once. Raises NotAsymSpecError."""
        return self._run(self._remote.info())

    @cached_property
    def backend(self) -> HTTPBackend:
        """The client that agents use."""
        options = self.options
        backend = HTTPBackend(
            options.base_url,
            api_key=options.api_key,
            timeout_s=options.timeout_s,
            connect_timeout_s=options.connect_timeout_s,
            max_retries=options.max_retries,
        )
        self._opened.append(backend.close)
        return backend

    def close(self) -> None:
        """Ends what still runs and closes the connections."""
        for close in self._opened:
            close()

    @cached_property
    def _remote(self) -> Remote:
        remote = Remote(self.options, None, "error")
        self._opened.append(remote.loop.stop)
        return remote

    def _run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return self._remote.run(coroutine)
