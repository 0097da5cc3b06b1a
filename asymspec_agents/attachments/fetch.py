"""Fetches a file from a URL without letting the URL's author reach anything but the public internet.

Each hop's host is resolved once, all its addresses are checked, and the connection goes to a checked address
(with the host's name for TLS), so a name that resolves differently the next time changes nothing.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

import httpx

from .policy import RemotePolicy

__all__ = ["FetchError", "Resolver", "fetch", "host_of", "is_reachable"]

Resolver = Callable[[str, int], Sequence[str]]

_DEFAULT_PORTS = {"https": 443, "http": 80}
_MAX_URL_CHARS = 4_096
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


class FetchError(Exception):
    """Why a URL was not fetched, in words that quote nothing of it."""


def resolved(host: str, port: int) -> tuple[str, ...]:
    """All addresses of a host, as the system resolves it."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[4][0]) for address in found))


def host_of(url: str) -> str:
    """The URL's host for a note, empty where it has none."""
    try:
        return (urlsplit(url[:_MAX_URL_CHARS]).hostname or "")[:100]
    except ValueError:
        return ""


def is_reachable(address: str, policy: RemotePolicy) -> bool:
    """Whether an address is public, or in one of the policy's networks; so must be one embedded in it."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])  # the zone of a link-local address
    except ValueError:
        return False
    if any(ip in ipaddress.ip_network(network) for network in policy.networks):
        return True
    if isinstance(ip, ipaddress.IPv6Address):
        embedded: list[ipaddress.IPv4Address] = [found for found in (ip.ipv4_mapped, ip.sixtofour) if found]
        if ip.teredo is not None:
            embedded += ip.teredo
        if ip in _NAT64:
            embedded.append(ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF))
        if embedded:
            return all(is_reachable(str(inner), policy) for inner in embedded)
    return ip.is_global and not ip.is_multicast and not ip.is_reserved


def fetch(url: str, policy: RemotePolicy, max_bytes: int, resolver: Resolver = resolved) -> bytes:
    """The file at the URL, of at most `max_bytes`. Raises FetchError."""
    deadline_s = time.monotonic() + policy.timeout_s
    with httpx.Client(trust_env=False, follow_redirects=False) as client:
        for _ in range(policy.max_redirects + 1):
            parts = _checked(url, policy)
            answer = _get(client, parts, _addresses(parts, policy, resolver), max_bytes, deadline_s)
            if isinstance(answer, bytes):
                return answer
            url = urljoin(url, answer)
    raise FetchError("it is redirected too often")


def _checked(url: str, policy: RemotePolicy) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = _port(parts)
    except ValueError:
        raise FetchError("its URL is malformed") from None
    if len(url) > _MAX_URL_CHARS or not url.isprintable() or " " in url or "\\" in url:
        raise FetchError("its URL is malformed")
    if parts.scheme not in policy.schemes:
        raise FetchError(f"only {' and '.join(policy.schemes)} URLs are fetched")
    if not parts.hostname:
        raise FetchError("its URL is malformed")
    if parts.username is not None or parts.password is not None:
        raise FetchError("its URL has a user name in it")
    if port not in policy.ports:
        raise FetchError(f"only ports {', '.join(map(str, policy.ports))} are reached")
    return parts


def _port(parts: SplitResult) -> int:
    return parts.port if parts.port is not None else _DEFAULT_PORTS.get(parts.scheme, 0)


def _addresses(parts: SplitResult, policy: RemotePolicy, resolver: Resolver) -> Sequence[str]:
    try:
        addresses = resolver(str(parts.hostname), _port(parts))
    except (OSError, UnicodeError):
        raise FetchError("its host is unknown") from None
    if not addresses:
        raise FetchError("its host is unknown")
    if not all(is_reachable(address, policy) for address in addresses):
        raise FetchError("its host is not on the public internet")
    return addresses


def _get(
    client: httpx.Client, parts: SplitResult, addresses: Sequence[str], max_bytes: int, deadline_s: float
) -> bytes | str:
    """The body, or where a redirect leads. Addresses are tried in order until one can be connected to."""
    host, port = str(parts.hostname), _port(parts)
    shown = f"[{host}]" if ":" in host else host
    headers = {
        "Host": shown if port == _DEFAULT_PORTS[parts.scheme] else f"{shown}:{port}",
        "Accept": "*/*",
        "Accept-Encoding": "identity",
        "User-Agent": "asymspec-agents",
    }
    for number, address in enumerate(addresses):
        literal = f"[{address}]" if ":" in address else address
        target = f"{parts.scheme}://{literal}:{port}{parts.path or '/'}" + (
            f"?{parts.query}" if parts.query else ""
        )
        extensions: dict[str, Any] = {"sni_hostname": host}
        try:
            with client.stream(
                "GET", target, headers=headers, timeout=_left(deadline_s), extensions=extensions
            ) as answer:
                return _read(answer, max_bytes, deadline_s)
        except httpx.ConnectError:
            if number == len(addresses) - 1:
                raise FetchError("its host cannot be reached") from None
        except httpx.TimeoutException:
            raise FetchError("its host took too long") from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError):
            raise FetchError("its host did not answer properly") from None
    raise FetchError("its host cannot be reached")


def _read(answer: httpx.Response, max_bytes: int, deadline_s: float) -> bytes | str:
    if answer.has_redirect_location:
        return answer.headers["location"]
    if answer.status_code != 200:
        raise FetchError(f"its host answered with status {answer.status_code}")
    if answer.headers.get("content-encoding", "identity") != "identity":
        raise FetchError("its host did not answer properly")  # it was asked for plain bytes
    stated = answer.headers.get("content-length", "")
    if stated.isdigit() and int(stated) > max_bytes:
        raise FetchError(f"it is larger than {max_bytes:,} bytes")
    data = bytearray()
    for piece in answer.iter_raw():
        data += piece
        if len(data) > max_bytes:
            raise FetchError(f"it is larger than {max_bytes:,} bytes")
        _left(deadline_s)
    return bytes(data)


def _left(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise FetchError("its host took too long")
    return left_s
