"""The endpoint plugin: vLLM's completion routes, which now also take an `asymspec` object; the handshake."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.requests import ClientDisconnect

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.wire.handshake import PATH

from .answering import GONE, Answering, ChatAnswering, CompletionAnswering
from .compat import validate_json_request
from .start import read_state

__all__ = ["AsymSpecEndpoints"]

OBJECT_NAME = b'"asymspec"'  # as JSON has it; inside a text the quotes are escaped

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class AsymSpecEndpoints:
    """vLLM's `EndpointPlugin`, named `asymspec`."""

    name = "asymspec"
    required_tasks = ("generate",)

    def attach_router(self, app: FastAPI) -> None:
        """Puts our routes in the place of vLLM's; each hands on what is not for us."""
        app.include_router(_router(ChatRoute, _stock_route(app, "/v1/chat/completions")))
        app.include_router(_router(CompletionRoute, _stock_route(app, "/v1/completions")))
        handshake = APIRouter()
        handshake.add_api_route(PATH, _handshake, methods=["GET"])
        app.include_router(handshake)

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Reads what the server is, once."""
        names = args.served_model_name or [args.model]
        state.asymspec = await read_state(engine_client, names)


class _Route(APIRoute):  # type: ignore[misc]  # vLLM brings FastAPI
    """One of vLLM's routes, which answers a body with an `asymspec` object itself."""

    answering: ClassVar[type[Answering]]

    def get_route_handler(self) -> Handler:
        stock = super().get_route_handler()
        answering = self.answering()

        async def handle(request: Request) -> Response:
            try:
                body = await request.body()
            except ClientDisconnect:
                return Response(status_code=GONE)
            if OBJECT_NAME in body:
                await validate_json_request(request)
                response = await answering.respond(body, request)
                if response is not None:
                    return response
            return await stock(request)

        return handle


class ChatRoute(_Route):
    """`POST /v1/chat/completions`."""

    answering = ChatAnswering


class CompletionRoute(_Route):
    """`POST /v1/completions`."""

    answering = CompletionAnswering


def _stock_route(app: FastAPI, path: str) -> APIRoute:
    """vLLM's own route, which ours takes the place of."""
    for route in app.routes:
        if isinstance(route, APIRoute) and route.path == path and "POST" in route.methods:
            return route
    raise ConfigurationError(f"this vLLM server has no POST {path}; AsymSpec needs a generating model")


def _router(kind: type[_Route], stock: APIRoute) -> APIRouter:
    router = APIRouter(route_class=kind)
    router.add_api_route(
        stock.path,
        stock.endpoint,
        methods=["POST"],
        dependencies=stock.dependencies,
        responses=stock.responses,
        response_model=stock.response_model,
    )
    return router


async def _handshake(request: Request) -> Response:
    """The protocol's version, models, modes and limits."""
    return JSONResponse(request.app.state.asymspec.info.model_dump(mode="json"))
