"""`asymspec gateway`: both views for the calls of any OpenAI client."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import sys
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from ..config import from_env
from ..errors import ConfigurationError, MissingDependencyError
from ..protocol import AsymSpecOptions
from ..recording import NULL_RECORDER
from ..rendition_cache import SQLiteRenditionCache
from ..views import ViewPolicy
from .trace_options import add_otel_options, otel_recorder

__all__ = ["add_parser", "run"]

MIB = 1024**2
DESCRIPTION = """\
An OpenAI-compatible server that forwards calls to others. Each call's messages are routed into the full and
the compressed view, and both go to an AsymSpec server (`asymspec serve`, `asymspec vllm serve`). Point a
client's base_url at it; nothing else changes.
"""

_T = TypeVar("_T")


def add_parser(subparsers: Any) -> None:
    """Adds the `gateway` command to an argparse subparsers object."""
    parser = subparsers.add_parser(
        "gateway", help="route any OpenAI client's calls into both views", description=DESCRIPTION
    )
    upstream = parser.add_argument_group("upstreams")
    upstream.add_argument("--upstream", metavar="URL", help="the server to forward calls to")
    upstream.add_argument(
        "--upstream-api-key-file",
        type=Path,
        metavar="FILE",
        help="the gateway's key there (default: ASYMSPEC_UPSTREAM_API_KEY)",
    )
    upstream.add_argument(
        "--route",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="forward calls for this model elsewhere; repeatable",
    )
    upstream.add_argument(
        "--route-api-key-file",
        action="append",
        default=[],
        metavar="NAME=FILE",
        help="the gateway's key at that route's server; repeatable",
    )
    upstream.add_argument(
        "--on-plain-upstream",
        choices=("refuse", "pass", "compress"),
        default="refuse",
        help="calls for a server that does not speak AsymSpec: refuse, pass them as they are, or send the "
        "compressed view alone (default: %(default)s)",
    )
    upstream.add_argument(
        "--forward-client-key", action="store_true", help="send each client's own key to the upstream"
    )
    upstream.add_argument(
        "--connect-s", type=float, default=10.0, metavar="S", help="time to connect (default: %(default)s)"
    )
    upstream.add_argument(
        "--first-byte-s",
        type=float,
        default=600.0,
        metavar="S",
        help="longest silence before an answer (default: %(default)s)",
    )
    upstream.add_argument(
        "--idle-s",
        type=float,
        default=120.0,
        metavar="S",
        help="longest silence within an answer (default: %(default)s)",
    )
    views = parser.add_argument_group("views")
    views.add_argument("--mode", metavar="NAME", help="decoding mode (default: asymspec)")
    views.add_argument(
        "--on-sampling",
        choices=("error", "greedy"),
        default="error",
        help="calls that ask for a temperature: refused, or decoded greedily, which the answer's report says "
        "(default: %(default)s)",
    )
    views.add_argument("--keep-last", type=int, metavar="N", help="turns that stay verbatim")
    views.add_argument("--max-verifier-tokens", type=int, metavar="N", help="longest compressed view")
    views.add_argument("--max-drafter-tokens", type=int, metavar="N", help="longest full view")
    views.add_argument(
        "--cache", type=Path, metavar="FILE", help="share renditions with other gateways on this machine"
    )
    clients = parser.add_argument_group("clients")
    clients.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    clients.add_argument("--port", type=int, default=8_080, help="0 picks a free one (default: %(default)s)")
    clients.add_argument(
        "--api-key-file",
        type=Path,
        metavar="FILE",
        help="keys to ask clients for, one a line (default: ASYMSPEC_API_KEY)",
    )
    clients.add_argument(
        "--max-in-flight", type=int, default=256, metavar="N", help="requests of one key at a time"
    )
    clients.add_argument("--max-per-minute", type=int, metavar="N", help="requests of one key in a minute")
    clients.add_argument("--max-body-mib", type=int, default=64, metavar="N", help="longest request body")
    clients.add_argument(
        "--grace-s",
        type=float,
        default=30.0,
        metavar="S",
        help="time for open requests to end once the gateway is told to stop (default: %(default)s)",
    )
    checks = parser.add_argument_group("checks and trials")
    checks.add_argument("--check-url", metavar="URL", help="ask here about every call, with its full view")
    checks.add_argument("--check-api-key-file", type=Path, metavar="FILE", help="the gateway's key there")
    checks.add_argument(
        "--on-check-failure",
        choices=("refuse", "allow"),
        default="refuse",
        help="calls that could not be checked (default: %(default)s)",
    )
    checks.add_argument(
        "--shadow",
        type=float,
        default=0.0,
        metavar="RATE",
        help="share of calls to send with the full view alone as well, after their answer, for comparison",
    )
    checks.add_argument("--trace", type=Path, metavar="FILE", help="append one JSON line per event")
    add_otel_options(parser, "asymspec-gateway")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 once the gateway was told to stop."""
    from ..trace import JSONLRecorder, TeeRecorder

    try:
        from ..gateway.app import create_gateway
        from ..gateway.checking import URLCheck
        from ..gateway.options import GatewayOptions, UpstreamOptions
        from ..gateway.starting import check_upstreams
        from ..server.running import is_loopback, listen, serve

        if find_spec("uvicorn") is None:
            raise MissingDependencyError("uvicorn", "gateway")
    except MissingDependencyError:
        raise
    except ImportError as error:
        raise MissingDependencyError(error.name or "starlette", "gateway") from error

    if args.upstream is None and not args.route:
        raise ConfigurationError("--upstream: a gateway needs one, or a --route to some")
    for option in ("max_in_flight", "max_per_minute", "max_body_mib"):
        value = getattr(args, option)
        if value is not None and value < 1:
            raise ConfigurationError(f"--{option.replace('_', '-')}={value} must be at least 1")
    settings = from_env()
    upstream_keys = _keys(args.upstream_api_key_file) or filter(None, [settings.upstream_api_key])
    route_keys = dict(_pairs("--route-api-key-file", args.route_api_key_file, Path))
    routes = dict(_pairs("--route", args.route, str))
    if not route_keys.keys() <= routes.keys():
        raise ConfigurationError(f"--route-api-key-file: no --route {min(route_keys.keys() - routes.keys())}")

    def server(option: str, url: str, keys: Iterable[str]) -> UpstreamOptions:
        try:
            return UpstreamOptions(url, next(iter(keys), None))
        except ConfigurationError as error:
            raise ConfigurationError(f"{option}: {error}") from error

    policy = {
        name: getattr(args, name)
        for name in ("keep_last", "max_verifier_tokens", "max_drafter_tokens")
        if getattr(args, name) is not None
    }
    options = GatewayOptions(
        upstream=None if args.upstream is None else server("--upstream", args.upstream, upstream_keys),
        routes={
            name: server(f"--route {name}", url, _keys(route_keys.get(name))) for name, url in routes.items()
        },
        on_plain_upstream=args.on_plain_upstream,
        asymspec=AsymSpecOptions.of(
            **({} if args.mode is None else {"mode": args.mode}),
            **({} if args.on_sampling == "error" else {"on_sampling": args.on_sampling}),
        ),
        policy=ViewPolicy(**policy),
        api_keys=_keys(args.api_key_file) or tuple(filter(None, [settings.api_key])),
        forwards_client_key=args.forward_client_key,
        max_body_bytes=args.max_body_mib * MIB,
        max_in_flight=args.max_in_flight,
        max_per_minute=args.max_per_minute,
        connect_s=args.connect_s,
        first_byte_s=args.first_byte_s,
        idle_s=args.idle_s,
        cache_path=args.cache,
        shadow_rate=args.shadow,
        on_check_failure=args.on_check_failure,
    )
    check = None
    if args.check_url is not None:
        check = URLCheck(args.check_url, next(iter(_keys(args.check_api_key_file)), None))
    if not args.grace_s >= 0:
        raise ConfigurationError(f"--grace-s={args.grace_s} must not be negative")
    with contextlib.ExitStack() as stack:
        bound = stack.enter_context(listen(args.host, args.port))
        host, port = bound.getsockname()[:2]
        if not options.api_keys and not is_loopback(host):
            print(
                f"warning: whoever can reach {host}:{port} can use this gateway; --api-key-file asks for "
                "a key",
                file=sys.stderr,
            )
        trace = JSONLRecorder(args.trace) if args.trace else None
        kept = [
            stack.enter_context(contextlib.closing(r)) for r in (trace, otel_recorder(args)) if r is not None
        ]
        recorder = TeeRecorder(*kept) if kept else NULL_RECORDER
        if args.cache is not None:  # before anybody is asked
            SQLiteRenditionCache(args.cache).close()
        for note in asyncio.run(check_upstreams(options)):
            print(f"warning: {note}", file=sys.stderr)
        app = create_gateway(options, check=check, recorder=recorder)
        shown = f"[{host}]" if ":" in host else host
        serve(
            app,
            bound,
            ready=lambda: print(f"Ready: http://{shown}:{port}/v1 (Ctrl-C stops)", flush=True),
            end_open=app.state.passages.stop_all,
            grace_s=args.grace_s,
        )
    return 0


def _keys(file: Path | None) -> tuple[str, ...]:
    """The keys in a file, one a line; empty lines and those that begin with # are none."""
    if file is None:
        return ()
    lines = (line.strip() for line in file.read_text("utf-8").splitlines())
    keys = tuple(line for line in lines if line and not line.startswith("#"))
    if not keys:
        raise ConfigurationError(f"{file}: the file holds no key")
    return keys


def _pairs(option: str, given: Iterable[str], read: Callable[[str], _T]) -> list[tuple[str, _T]]:
    pairs = []
    for text in given:
        name, separator, value = text.partition("=")
        if not name or not separator or not value:
            raise ConfigurationError(f"{option} {text!r} must be NAME=VALUE")
        pairs.append((name, read(value)))
    return pairs
