"""Which headers pass a gateway, in either direction.

Source: RFC 9110, 7.6.1 (hop-by-hop fields) and 7.6.3; RFC 9112, 6 and 7 (message framing).
"""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["RawHeaders", "answer_headers", "request_headers"]

RawHeaders = list[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authentication-info",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
# What a client proves itself with is meant for the gateway.
_CREDENTIALS = frozenset({b"api-key", b"authorization", b"cookie", b"x-api-key", b"x-goog-api-key"})
# Where the client is and through whom it came is nobody's claim to make to the upstream.
_ORIGIN = frozenset({b"forwarded", b"via", b"x-real-ip"})
# Said anew for the gateway's own connection: bytes must come as they are to be passed on as they are.
_OWN_REQUEST = frozenset(
    {b"accept-encoding", b"content-length", b"content-type", b"expect", b"host", b"x-request-id"}
)
_OWN_ANSWER = frozenset({b"alt-svc", b"content-length", b"date", b"server", b"strict-transport-security"})


def request_headers(given: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers of a client's request that go upstream."""
    return [
        (name, value)
        for name, value in _end_to_end(given)
        if name not in _CREDENTIALS
        and name not in _ORIGIN
        and name not in _OWN_REQUEST
        and not name.startswith((b"x-forwarded-", b"x-asymspec-"))
    ]


def answer_headers(given: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """The headers of an upstream's answer that go to the client; its length is for the sender to say.

    Cookies stay behind: requests of many clients share the upstream's connections.
    """
    passed = [
        (name, value)
        for name, value in _end_to_end(given)
        if name not in _OWN_ANSWER
        and name not in (b"set-cookie", b"set-cookie2")
        and not name.startswith(b"x-asymspec-")
    ]
    # The gateway answers with its own id, which the upstream was given; another one still helps to ask there.
    return [(b"x-upstream-request-id" if name == b"x-request-id" else name, value) for name, value in passed]


def _end_to_end(given: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    headers = [(name.lower(), value) for name, value in given]
    named = {
        token.strip().lower()
        for name, value in headers
        if name == b"connection"
        for token in value.split(b",")
    }
    return [(name, value) for name, value in headers if name not in _HOP_BY_HOP and name not in named]
