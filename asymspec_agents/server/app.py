"""The server as an ASGI application: routes, guard, start and end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ..errors import ConfigurationError, MissingDependencyError

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route
except ImportError as error:
    raise MissingDependencyError("starlette", "server") from error

from ..backends.base import Backend
from ..recording import NULL_RECORDER, Recorder
from ..trace.metrics_recorder import MetricsRecorder
from ..wire.answers import ChatWriter, CompletionWriter
from ..wire.requests import parse_chat, parse_completion
from .answering import Endpoint, Models
from .failing import http_failure
from .guard import Guard
from .info import Info
from .metrics import ServerMetrics
from .openapi import openapi_schema
from .options import ServerOptions
from .queue import DecodeQueue
from .rendering import ASCIIResponse

__all__ = ["create_app"]


def create_app(
    backends: Mapping[str, Backend],
    options: ServerOptions | None = None,
    *,
    recorder: Recorder = NULL_RECORDER,
    metrics: MetricsRecorder | None = None,
) -> Starlette:
    """The application that serves these backends by model name.

    The first one decodes AsymSpec requests and is the default; the others answer plain requests. Needs the
    extra `server`. Run it with any ASGI server that does lifespans, as one process: the engine is in it.
    `recorder` is what the backends record to, which is told of requests' headers as well; `metrics`, which
    must be that recorder or take part in it, is offered at `/metrics`. `state.queue` is its DecodeQueue.
    """
    if not backends:
        raise ConfigurationError("backends is empty; a server needs at least one")
    options = options or ServerOptions()
    models = Models(dict(backends))
    queue = DecodeQueue(options.max_waiting)
    info = Info(models, queue, options)
    schema = openapi_schema()

    async def openapi(request: Request) -> Response:
        return ASCIIResponse(schema)

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        queue.start()
        try:
            yield
        finally:
            await asyncio.to_thread(queue.stop)

    told: dict[str, Any] = {"recorder": recorder}
    more: list[Route] = []
    if metrics is not None:
        counted = ServerMetrics(metrics, queue)
        told["refused"] = counted.refused

        async def show_metrics(request: Request) -> Response:
            return Response(counted.text(), headers={"content-type": counted.content_type})

        more = [Route("/metrics", show_metrics)]
    chat = Endpoint(models, queue, options, parse_chat, ChatWriter, "messages", **told)
    text = Endpoint(models, queue, options, parse_completion, CompletionWriter, "prompt", **told)
    app = Starlette(
        routes=[
            Route("/v1/chat/completions", chat.respond, methods=["POST"]),
            Route("/v1/completions", text.respond, methods=["POST"]),
            Route("/v1/models", info.list_models),
            Route("/v1/models/{name:path}", info.one_model),
            Route("/v1/asymspec", info.asymspec),
            Route("/tokenize", info.tokenize, methods=["POST"]),
            Route("/version", info.version),
            Route("/health", info.health),
            Route("/openapi.json", openapi),
            *more,
        ],
        middleware=[Middleware(Guard, api_keys=options.api_keys)],
        exception_handlers={HTTPException: http_failure, Exception: http_failure},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # few clients follow; a path with another slash is another path
    app.state.queue = queue
    return app
