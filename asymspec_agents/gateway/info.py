"""What a gateway says of itself and of its upstreams, and the questions it passes on."""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..errors import BackendError
from ..server.failing import RefusedError, failure_response
from ..server.rendering import ASCIIResponse
from ..wire.failures import Failure
from ..wire.handshake import PATH
from ..wire.reading import read_object
from .failing import UpstreamError, model_missing
from .forwarding import Forwarder
from .headers import RawHeaders, answer_headers, request_headers
from .metrics import CONTENT_TYPE, GatewayMetrics
from .options import GatewayOptions
from .shadow import Shadow
from .upstream import Upstream

__all__ = ["Info"]


class Info:
    """The endpoints beside the completions."""

    def __init__(
        self, forwarder: Forwarder, options: GatewayOptions, metrics: GatewayMetrics, shadow: Shadow
    ) -> None:
        self._forwarder = forwarder
        self._options = options
        self._metrics = metrics
        self._shadow = shadow

    async def health(self, request: Request) -> Response:
        """200 while the process answers."""
        return ASCIIResponse({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """200 where every upstream is reachable and may be used, else 503 with the reason."""
        upstreams = self._forwarder.upstreams
        problems = await asyncio.gather(*(self._problem(request, upstream) for upstream in upstreams))
        found = [problem for problem in problems if problem is not None]
        if found:
            return failure_response(Failure(503, "not_ready", "; ".join(dict.fromkeys(found))))
        return ASCIIResponse({"status": "ready", "num_upstreams": len(upstreams)})

    async def _problem(self, request: Request, upstream: Upstream) -> str | None:
        try:
            info = await upstream.present(_authorization(request))
        except UpstreamError as error:
            is_there = error.failure.status == 401  # it wants a client's own key
            return None if is_there else error.failure.message
        if info is None and self._options.on_plain_upstream == "refuse":
            return "an upstream does not speak AsymSpec, and on_plain_upstream is 'refuse'"
        return None

    async def metrics(self, request: Request) -> Response:
        """Prometheus' text."""
        return Response(self._metrics.text(), headers={"content-type": CONTENT_TYPE})

    async def shadow(self, request: Request) -> Response:
        """How the answers from both views differ from those from the full view alone."""
        return ASCIIResponse(self._shadow.summary())

    async def asymspec(self, request: Request) -> Response:
        """The default upstream's handshake, as it answers it."""
        return await self._passed(request, PATH)

    async def list_models(self, request: Request) -> Response:
        """The default upstream's models as it lists them; with routes, theirs as well."""
        if not self._forwarder.routes:
            return await self._passed(request, "/v1/models")
        try:
            models = await self._models(request)
        except UpstreamError as error:
            return failure_response(error.failure)
        return ASCIIResponse({"object": "list", "data": models})

    async def one_model(self, request: Request) -> Response:
        """One of them; names of hub models have slashes."""
        name: str = request.path_params["name"]
        try:
            models = await self._models(request)
        except UpstreamError as error:
            return failure_response(error.failure)
        for model in models:
            if model.get("id") == name:
                return ASCIIResponse(model)
        return failure_response(model_missing(name, tuple(str(model.get("id")) for model in models)))

    async def _models(self, request: Request) -> list[dict[str, Any]]:
        listed: list[dict[str, Any]] = []
        if self._forwarder.default is not None:
            response = await self._forwarder.default.get(
                "/v1/models", _authorization(request), _headers(request)
            )
            try:
                data = read_object(response.content).get("data")
            except BackendError:
                data = None
            if not response.is_success or not isinstance(data, list):
                text = f"the upstream answered the question for its models with {response.status_code}"
                raise UpstreamError(Failure(502, "upstream_broken", text))
            listed = [model for model in data if isinstance(model, dict)]
        routes = [name for name in self._forwarder.routes if name not in {m.get("id") for m in listed}]
        return [
            *listed,
            *({"id": n, "object": "model", "created": 0, "owned_by": "asymspec-gateway"} for n in routes),
        ]

    async def _passed(self, request: Request, path: str) -> Response:
        try:
            upstream = self._forwarder.choose(None)
            query = request.url.query
            path = f"{path}?{query}" if query else path
            answer = await upstream.get(path, _authorization(request), _headers(request))
            upstream.check_status(answer.status_code)
        except (UpstreamError, RefusedError) as error:
            return failure_response(error.failure)
        response = Response(answer.content, status_code=answer.status_code)
        length = (b"content-length", str(len(answer.content)).encode())
        response.raw_headers = [*answer_headers(answer.headers.raw), length]
        return response


def _headers(request: Request) -> RawHeaders:
    """What goes upstream of a question's headers, with its id."""
    identity = (b"x-request-id", request.state.request_id.encode("ascii"))
    return [*request_headers(request.headers.raw), identity]


def _authorization(request: Request) -> bytes | None:
    given = request.headers.get("authorization")
    return None if given is None else given.encode("latin-1")
