"""What a server is told at its start."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..errors import ConfigurationError

__all__ = ["ServerOptions"]

MIB = 1024**2
_KEY = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Who may ask, how much, and how many at a time.

    `api_keys`: any of them is accepted, each a tenant with prefix caches of its own; empty: everybody is.
    `max_body_bytes` bounds a request's body, `max_waiting` the requests that wait for the one being decoded.
    `keepalive_s`: a stream that has nothing to say sends a comment this often, in seconds.
    """

    api_keys: tuple[str, ...] = field(default=(), repr=False)
    max_body_bytes: int = 64 * MIB
    max_waiting: int = 16
    keepalive_s: float = 10.0

    def __post_init__(self) -> None:
        if isinstance(self.api_keys, str):  # whose every letter would be a key
            raise ConfigurationError("api_keys must be a list of keys, not one text")
        object.__setattr__(self, "api_keys", tuple(self.api_keys))
        for key in self.api_keys:
            if not isinstance(key, str) or not _KEY.fullmatch(key):
                raise ConfigurationError(
                    "api_keys: a key must be visible ASCII characters, without blanks or line ends; headers "
                    "need it"
                )
        for name, lowest in (("max_body_bytes", 1), ("max_waiting", 0)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < lowest:
                raise ConfigurationError(f"{name}={value!r} must be an integer of at least {lowest}")
        if not isinstance(self.keepalive_s, int | float) or not self.keepalive_s > 0:
            raise ConfigurationError(f"keepalive_s={self.keepalive_s!r} must be a number above 0")
