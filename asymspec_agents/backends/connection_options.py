"""How to reach a server: its address, key, times and retries, checked before anything is sent."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import httpx

from ..errors import ConfigurationError

__all__ = ["ConnectionOptions"]

# RFC 9110, 5.5 and 5.6.2; what a header cannot hold would otherwise fail in the middle of a call, with its
# value in the error.
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE = re.compile(r"(?:[!-~](?:[ -~\t]*[!-~])?)?")
_KEY = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """How to reach a server. `base_url` may end in `/v1` or not; times are in seconds.

    `timeout_s` bounds the silence between two pieces of an answer (for an answer in one piece: all of it),
    `connect_timeout_s` the opening of a connection. A connection that fails, 429 and 503 are tried again
    `max_retries` times, after growing pauses or what the server asks for; nothing else is. `headers` are sent
    with every request and outrank the key's.
    """

    base_url: str
    api_key: str | None = field(default=None, repr=False)
    timeout_s: float = 600.0
    connect_timeout_s: float = 10.0
    max_retries: int = 3
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "base_url", _root(self.base_url))
        for name in ("timeout_s", "connect_timeout_s"):
            value = getattr(self, name)
            if not _is_number(value) or not value > 0:
                raise ConfigurationError(f"{name}={value!r} must be a number above 0")
        retries = self.max_retries
        if not isinstance(retries, int) or isinstance(retries, bool) or retries < 0:
            raise ConfigurationError(f"max_retries={retries!r} must be an integer of at least 0")
        key = self.api_key
        if key is not None and not (isinstance(key, str) and _KEY.fullmatch(key)):
            raise ConfigurationError(
                "api_key must be visible ASCII characters, without blanks or line ends (a key read from a "
                "file often ends in one: strip it)"
            )
        for header, value in self.headers.items():
            if not isinstance(header, str) or not _HEADER_NAME.fullmatch(header):
                raise ConfigurationError(f"headers: {header!r} is no name of a header")
            if not isinstance(value, str) or not _HEADER_VALUE.fullmatch(value):
                raise ConfigurationError(
                    f"headers: the value of {header} must be ASCII text without line ends or outer blanks"
                )


def _root(base_url: str) -> str:
    """The address that paths such as `/v1/models` are appended to."""
    shown = re.sub(r"//[^/]*@", "//…@", repr(base_url))
    try:
        url = httpx.URL(base_url)
    except (httpx.InvalidURL, TypeError, ValueError) as error:
        raise ConfigurationError(f"base_url={shown} is no URL") from error
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigurationError(
            f"base_url={shown} must begin with http:// or https:// and name a host, such as "
            "http://127.0.0.1:8000"
        )
    if url.userinfo:
        raise ConfigurationError("base_url holds a user name or password; give api_key instead")
    if url.query or url.fragment:
        raise ConfigurationError("base_url holds a query or a fragment; give the address without it")
    path = url.raw_path.decode("ascii").rstrip("/").removesuffix("/v1").rstrip("/")
    return f"{url.scheme}://{url.netloc.decode('ascii')}{path}"


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
