"""The gateway as an ASGI application: routes, guard, start and end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from ..errors import MissingDependencyError

try:
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.routing import Route
except ImportError as error:
    raise MissingDependencyError("starlette", "gateway") from error

from ..attachments import AttachmentPolicy, Attachments
from ..backends.base import Capabilities
from ..compress.base import Compressor
from ..default_router import attachment_policy
from ..recording import NULL_RECORDER, Recorder
from ..rendition_cache import SQLiteRenditionCache
from ..router import ContextRouter
from ..server.failing import http_failure
from ..server.guard import Guard
from ..store import MemoryStore
from ..trace.recorder import TeeRecorder
from ..views.fitting import PromptCounter
from ..views.policy import ViewPolicy
from .checking import Check, Guarded, URLCheck
from .endpoint import Endpoint
from .forwarding import Forwarder
from .info import Info
from .limits import ClientLimits
from .metrics import GatewayMetrics
from .options import GatewayOptions
from .passage import Passages
from .preparing import CHAT
from .responses import ResponsesTranslation
from .shadow import Shadow
from .translation import Translate
from .watching import Watch

__all__ = ["create_gateway"]


def create_gateway(
    options: GatewayOptions,
    *,
    check: Check | None = None,
    compressor: Compressor | None = None,
    attachments: Attachments | None = None,
    recorder: Recorder = NULL_RECORDER,
) -> Starlette:
    """The application that forwards the calls of OpenAI clients, each with both of its views.

    Needs the extra `gateway`. It can be run by any ASGI server, in any number of processes, or mounted in
    another application; it needs no lifespan, but closes its connections at the end of one (`state.close`
    does so elsewhere). `check` is shown every call before it is sent; `compressor` and `attachments` are what
    its ContextRouter works with. `state.passages` are the open requests.
    """
    metrics = GatewayMetrics()
    recorder = TeeRecorder(recorder, metrics.recorder) if recorder is not NULL_RECORDER else metrics.recorder
    store = MemoryStore(max_bytes=1)  # nobody asks a gateway for originals
    readers: dict[AttachmentPolicy, Attachments] = {}
    cache = None if options.cache_path is None else SQLiteRenditionCache(options.cache_path)

    def make_router(
        policy: ViewPolicy, prompt_counter: PromptCounter | None, can: Capabilities | None
    ) -> ContextRouter:
        own = attachment_policy(can)
        return ContextRouter(
            policy,
            compressor=compressor,
            store=store,
            prompt_counter=prompt_counter,
            attachments=readers.setdefault(own, Attachments(own)) if attachments is None else attachments,
            rendition_cache=cache,
            recorder=recorder,
        )

    limits = ClientLimits(options.max_in_flight, options.max_per_minute)
    passages = Passages(metrics.ended)
    metrics.watch(passages)
    guarded = None if check is None else Guarded(check, options.check_timeout_s, options.on_check_failure)
    shadow = Shadow(options, recorder)
    forwarder = Forwarder(options, make_router, guarded, Watch(metrics, shadow, recorder))
    info = Info(forwarder, options, metrics, shadow)

    def completion(path: str, translate: Translate | None = None) -> Route:
        endpoint = Endpoint(path, forwarder, limits, passages, options.max_body_bytes, translate)
        return Route(path, endpoint.respond, methods=["POST"])

    async def close() -> None:
        await shadow.close()
        await forwarder.close()
        if isinstance(check, URLCheck):
            await check.aclose()
        for reader in readers.values():
            await asyncio.to_thread(reader.close)
        if cache is not None:
            cache.close()

    @contextlib.asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            await close()

    app = Starlette(
        routes=[
            completion(CHAT),
            completion("/v1/completions"),
            completion("/v1/responses", ResponsesTranslation),
            completion("/tokenize"),
            Route("/v1/models", info.list_models),
            Route("/v1/models/{name:path}", info.one_model),
            Route("/v1/asymspec", info.asymspec),
            Route("/v1/asymspec/shadow", info.shadow),
            Route("/metrics", info.metrics),
            Route("/health", info.health),
            Route("/ready", info.ready),
        ],
        middleware=[Middleware(Guard, api_keys=options.api_keys, open_paths=("/health", "/ready"))],
        exception_handlers={HTTPException: http_failure, Exception: http_failure},
        lifespan=lifespan,
    )
    app.router.redirect_slashes = False  # few clients follow; a path with another slash is another path
    app.state.passages = passages
    app.state.close = close
    return app
