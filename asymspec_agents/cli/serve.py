"""`asymspec serve`: the local engine behind an OpenAI-compatible API."""

from __future__ import annotations

import argparse
import contextlib
import sys
from importlib.util import find_spec
from typing import Any

from ..backends.base import Backend
from ..config import from_env
from ..engine.vision.options import VisionOptions
from ..errors import ConfigurationError, MissingDependencyError
from ..weights import DEFAULT_PAIR, show_progress
from .trace_options import add_otel_options, add_trace_options, otel_recorder, trace_recorder

__all__ = ["add_parser", "run"]

MIB = 1024**2


def add_parser(subparsers: Any) -> None:
    """Adds the `serve` command to an argparse subparsers object."""
    parser = subparsers.add_parser("serve", help="serve two models over HTTP, OpenAI-compatible")
    models = parser.add_argument_group("models")
    models.add_argument(
        "--verifier", default=DEFAULT_PAIR.verifier, help="preset, folder or hub name (default: %(default)s)"
    )
    models.add_argument(
        "--drafter", default=DEFAULT_PAIR.drafter, help="preset, folder or hub name (default: %(default)s)"
    )
    models.add_argument(
        "--vocab-map",
        metavar="MAP",
        help='lets a drafter of another family take part: "auto", or a file of `asymspec vocab build`',
    )
    models.add_argument("--served-model-name", metavar="NAME", help="the verifier's name in the API")
    models.add_argument("--dtype", default="bfloat16", help="of both models (default: %(default)s)")
    models.add_argument("--device", help="such as cpu or cuda:0 (default: CUDA where present)")
    models.add_argument("--max-verifier-tokens", type=int, metavar="N", help="longest compressed view")
    models.add_argument("--max-drafter-tokens", type=int, metavar="N", help="longest full view")
    models.add_argument(
        "--max-images",
        type=int,
        metavar="N",
        help="different images that a drafter that sees is shown in one request "
        f"(default: {VisionOptions().max_images})",
    )
    models.add_argument(
        "--prefix-cache-mib", type=int, default=4_096, metavar="N", help="memory for earlier calls' caches"
    )
    http = parser.add_argument_group("HTTP")
    http.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s)")
    http.add_argument("--port", type=int, default=8_000, help="0 picks a free one (default: %(default)s)")
    http.add_argument(
        "--api-key",
        action="append",
        metavar="KEY",
        help="a key to ask clients for, with caches of its own; repeatable (default: ASYMSPEC_API_KEY)",
    )
    http.add_argument("--max-body-mib", type=int, default=64, metavar="N", help="longest request body")
    http.add_argument(
        "--max-waiting", type=int, default=16, metavar="N", help="requests that may wait; more get a 429"
    )
    add_trace_options(parser)
    add_otel_options(parser, "asymspec-serve")


def run(args: argparse.Namespace) -> int:
    """Exit code 0 once the server was told to stop."""
    from ..backends.local import LocalBackend

    try:
        from ..engine.request import EngineOptions
    except ImportError as error:
        raise MissingDependencyError(error.name or "torch", "engine") from error
    try:
        from ..server.app import create_app
        from ..server.options import ServerOptions
        from ..server.running import is_loopback, listen, serve
        from ..trace import MetricsRecorder, TeeRecorder

        if find_spec("uvicorn") is None:
            raise MissingDependencyError("uvicorn", "server")
    except MissingDependencyError:
        raise
    except ImportError as error:
        raise MissingDependencyError(error.name or "starlette", "server") from error

    api_keys = tuple(args.api_key or filter(None, [from_env().api_key]))
    server_options = ServerOptions(
        api_keys=api_keys, max_body_bytes=args.max_body_mib * MIB, max_waiting=args.max_waiting
    )
    engine_options = EngineOptions(
        prefix_cache_bytes=args.prefix_cache_mib * MIB,
        max_verifier_tokens=args.max_verifier_tokens,
        max_drafter_tokens=args.max_drafter_tokens,
        vision=VisionOptions() if args.max_images is None else VisionOptions(max_images=args.max_images),
    )
    with contextlib.ExitStack() as stack:
        bound = stack.enter_context(listen(args.host, args.port))
        host, port = bound.getsockname()[:2]
        if not api_keys and not is_loopback(host):
            print(
                f"warning: whoever can reach {host}:{port} can use this server; --api-key asks for a key",
                file=sys.stderr,
            )
        metrics = MetricsRecorder(("engine",))
        trace, otel = trace_recorder(args), otel_recorder(args)
        kept = [stack.enter_context(contextlib.closing(r)) for r in (trace, otel) if r is not None]
        recorder = TeeRecorder(metrics, *kept)
        print(f"Loading {args.verifier} and {args.drafter} …", flush=True)
        with show_progress() as progress:
            backend = LocalBackend.load(
                args.verifier,
                args.drafter,
                dtype=args.dtype,
                device=args.device,
                options=engine_options,
                recorder=recorder,
                progress=progress,
                vocab_map=args.vocab_map,
            )
        if args.max_images is not None and not backend.capabilities.sees_images:
            raise ConfigurationError(
                f"--max-images={args.max_images}: the drafter {args.drafter} sees no images; leave it out, "
                "or take a vision-language model of the verifier's family as drafter"
            )
        app = create_app(
            _by_name(backend, args.served_model_name), server_options, recorder=recorder, metrics=metrics
        )
        shown = f"[{host}]" if ":" in host else host
        serve(
            app,
            bound,
            ready=lambda: print(f"Ready: http://{shown}:{port}/v1 (Ctrl-C stops)", flush=True),
            end_open=app.state.queue.give_up_all,
        )
    return 0


def _by_name(backend: Any, served_name: str | None) -> dict[str, Backend]:
    """The pair under the verifier's name, and the drafter alone under its own."""
    capabilities = backend.capabilities
    name = served_name or capabilities.verifier
    if capabilities.drafter == name and served_name:
        raise ConfigurationError(f"--served-model-name={name!r} is the drafter's name; give another")
    backends: dict[str, Backend] = {name: backend}
    if capabilities.drafter not in (None, name):
        backends[capabilities.drafter] = backend.with_arm("drafter")
    return backends
