"""What a gateway is told at its start: its upstreams, its clients, its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..backends.connection_options import ConnectionOptions
from ..errors import ConfigurationError
from ..protocol import AsymSpecOptions
from ..server.options import MIB, ServerOptions
from ..views.policy import ViewPolicy

__all__ = ["GatewayOptions", "OnPlainUpstream", "UpstreamOptions"]

OnPlainUpstream = Literal["refuse", "pass", "compress"]
MAX_TIMEOUT_S = 86_400


@dataclass(frozen=True, slots=True)
class UpstreamOptions:
    """A server to forward to; `base_url` may end in `/v1` or not, `api_key` is the gateway's key there."""

    base_url: str
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        checked = ConnectionOptions(self.base_url, api_key=self.api_key)
        object.__setattr__(self, "base_url", checked.base_url)


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayOptions:
    """Where calls go, who may make them, and how much; raises ConfigurationError.

    `upstream` answers every model that `routes` (by model name) does not name; without it, others are
    refused. `on_plain_upstream`: what happens to calls for a server that does not speak AsymSpec: they are
    refused, passed on unchanged, or sent with the compressed view alone. `asymspec` are the decoding options
    of calls that bring none; `policy` says what is compressed, within each upstream's own limits.
    `on_sampling`, in `asymspec`, decides on calls that ask for a temperature.

    `api_keys`: any of them is accepted, each a client with limits and caches of its own; empty: everybody is.
    `forwards_client_key` sends the client's key upstream, where the gateway has no keys of its own.
    `max_in_flight` and `max_per_minute` are requests of one client, None for no limit; they are counted in
    each process. `first_byte_s` bounds the silence before an answer begins, `idle_s` every later one.
    `handshake_s`: how long an upstream's word on itself is trusted before it is asked again.

    `cache_path`: a file that shares renditions between processes. `shadow_rate`: share of calls that are sent
    with the full view as well, after their answer; `max_shadow_waiting` of them wait at most.
    `check_timeout_s` and `on_check_failure` are for the checker, where there is one.
    """

    upstream: UpstreamOptions | None = None
    routes: Mapping[str, UpstreamOptions] = field(default_factory=dict)
    on_plain_upstream: OnPlainUpstream = "refuse"
    asymspec: AsymSpecOptions = field(default_factory=AsymSpecOptions)
    policy: ViewPolicy = field(default_factory=ViewPolicy)
    api_keys: tuple[str, ...] = field(default=(), repr=False)
    forwards_client_key: bool = False
    max_body_bytes: int = 64 * MIB
    max_in_flight: int | None = 256
    max_per_minute: int | None = None
    connect_s: float = 10.0
    first_byte_s: float = 600.0
    idle_s: float = 120.0
    handshake_s: float = 30.0
    cache_path: Path | None = None
    shadow_rate: float = 0.0
    max_shadow_waiting: int = 32
    check_timeout_s: float = 10.0
    on_check_failure: Literal["refuse", "allow"] = "refuse"

    def __post_init__(self) -> None:
        object.__setattr__(self, "routes", dict(self.routes))
        if self.upstream is None and not self.routes:
            raise ConfigurationError("upstream: a gateway needs one, or routes to some")
        for name, route in self.routes.items():
            if not isinstance(name, str) or not name or not isinstance(route, UpstreamOptions):
                raise ConfigurationError(f"routes[{name!r}] must map a model's name to UpstreamOptions")
        choices = {
            "on_plain_upstream": ("refuse", "pass", "compress"),
            "on_check_failure": ("refuse", "allow"),
        }
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise ConfigurationError(f"{name}={getattr(self, name)!r} must be one of {', '.join(known)}")
        checked = ServerOptions(api_keys=self.api_keys, max_body_bytes=self.max_body_bytes)
        object.__setattr__(self, "api_keys", checked.api_keys)
        if self.forwards_client_key and self.api_keys:
            raise ConfigurationError(
                "forwards_client_key=True: the upstream would get the gateway's keys; leave out api_keys "
                "or give the upstream an api_key"
            )
        for name in ("connect_s", "first_byte_s", "idle_s", "handshake_s", "check_timeout_s"):
            value = getattr(self, name)
            if not _is_number(value) or not 0 < value <= MAX_TIMEOUT_S:
                raise ConfigurationError(f"{name}={value!r} must be in (0, {MAX_TIMEOUT_S:,}] seconds")
        for name in ("max_in_flight", "max_per_minute"):
            value = getattr(self, name)
            if value is not None and not _is_int(value, 1):
                raise ConfigurationError(f"{name}={value!r} must be None or an integer of at least 1")
        if not _is_int(self.max_shadow_waiting, 1):
            raise ConfigurationError(
                f"max_shadow_waiting={self.max_shadow_waiting!r} must be an integer of at least 1"
            )
        if not _is_number(self.shadow_rate) or not 0 <= self.shadow_rate <= 1:
            raise ConfigurationError(f"shadow_rate={self.shadow_rate!r} must be in [0, 1]")


def _is_int(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
