"""What a gateway cannot be told, and what it does not show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.gateway.options import GatewayOptions, UpstreamOptions

UPSTREAM = UpstreamOptions("http://127.0.0.1:8000/v1/", "secret-upstream")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"upstream": None}, "upstream"),
        ({"routes": {"": UPSTREAM}}, "routes"),
        ({"routes": {"a": "http://b"}}, "routes"),
        ({"on_plain_upstream": "ignore"}, "on_plain_upstream='ignore'"),
        ({"on_check_failure": "ignore"}, "on_check_failure='ignore'"),
        ({"api_keys": "key"}, "api_keys"),
        ({"api_keys": ("a b",)}, "api_keys"),
        ({"api_keys": ("a",), "forwards_client_key": True}, "forwards_client_key"),
        ({"max_body_bytes": 0}, "max_body_bytes=0"),
        ({"connect_s": 0}, "connect_s=0"),
        ({"first_byte_s": float("nan")}, "first_byte_s=nan"),
        ({"idle_s": float("inf")}, "idle_s=inf"),
        ({"handshake_s": "1"}, "handshake_s='1'"),
        ({"check_timeout_s": True}, "check_timeout_s=True"),
        ({"max_in_flight": 0}, "max_in_flight=0"),
        ({"max_per_minute": 1.5}, "max_per_minute=1.5"),
        ({"max_shadow_waiting": 0}, "max_shadow_waiting=0"),
        ({"shadow_rate": 1.1}, "shadow_rate=1.1"),
        ({"shadow_rate": float("nan")}, "shadow_rate=nan"),
    ],
)
def test_what_is_out_of_range_is_named(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        GatewayOptions(**{"upstream": UPSTREAM, **given})


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "file:///a", "http://", "http://u:p@a", "http://a/v1?b=c", "http://a#b"]
)
def test_upstreams_are_addresses(url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        UpstreamOptions(url)


def test_keys_are_not_shown() -> None:
    options = GatewayOptions(upstream=UPSTREAM, api_keys=("secret-client",), cache_path=Path("a"))
    assert options.upstream is not None
    assert options.upstream.base_url == "http://127.0.0.1:8000"
    assert "secret" not in repr(options)
