"""From the bytes of a request to vLLM's response for it, with AsymSpec's report."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from asymspec_agents.backends.request import AnyRequest, ChatRequest, CompletionRequest
from asymspec_agents.errors import AsymSpecError, UnsupportedRequestError
from asymspec_agents.wire.failures import Failure, failure_of
from asymspec_agents.wire.json_body import json_object
from asymspec_agents.wire.requests import parse_chat, parse_completion

from ..heard import Heard
from ..wire_args import EXTRA_ARG
from .asked import Abilities, Asked, asked
from .bodies import DEFAULT_COMPLETION_TOKENS, ChatViews, CompletionViews, chat_views, completion_views
from .compat import ErrorResponse, load_aware_call, metrics_header, with_cancellation, with_sse_keep_alive
from .pictures import views_of_images
from .reports import report_of, with_report, with_reports
from .serving import ChatOnViews, CompletionOnViews, Settled, on_views
from .state import PluginState
from .tap import EngineTap

__all__ = ["GONE", "Answering", "ChatAnswering", "CompletionAnswering"]

GONE = 499  # what servers log for a client that left; nobody receives it
LOAD_FORMAT_HEADER = "endpoint-load-metrics-format"


@dataclass(slots=True)
class _Exchange:
    """One request on its way."""

    state: PluginState
    settled: Settled
    views: ChatViews | CompletionViews
    heard: Heard = field(default_factory=Heard)
    engine: EngineTap = field(init=False)

    def __post_init__(self) -> None:
        self.engine = EngineTap(self.state.engine, self.heard, self._ended)

    def _ended(self) -> None:
        metrics = self.state.metrics
        report = report_of(self.settled, self.heard)
        if self.heard.is_finished:
            metrics.finished(report)
            metrics.engine(self.heard.counts)
        else:
            metrics.aborted(report.mode)


class _EventStream(StreamingResponse):  # type: ignore[misc]  # vLLM brings FastAPI
    """Sends events; however that ends, so does the engine's work for them."""

    def __init__(self, events: AsyncGenerator[str, None], engine: EngineTap) -> None:
        super().__init__(events, media_type="text/event-stream")
        self._events = events
        self._engine = engine

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._events.aclose()
            await self._engine.close()


class Answering(ABC):
    """Answers AsymSpec requests of one endpoint; `default_tokens` is the answer's length without a limit."""

    default_tokens: ClassVar[int | None] = None

    async def respond(self, body: bytes, raw: Request) -> Response | None:
        """The response; None for a request without an `asymspec` object, which is not ours."""
        state: PluginState = raw.app.state.asymspec
        try:
            fields = await asyncio.to_thread(json_object, body)
            if fields.get("asymspec") is None:
                _check_plain(fields)
                return None
            wanted, views = await asyncio.to_thread(self._read, fields, state.abilities)
            settled = Settled(wanted, state.limits, self.default_tokens)
            exchange = _Exchange(state, settled, views)
            answer = with_cancellation(load_aware_call(self._answer))
            response: Response | None = await answer(exchange, raw)
            return response or Response(status_code=GONE)
        except AsymSpecError as error:
            failure = failure_of(error)
            state.metrics.refused(failure.code)
            return _failed(failure)

    @abstractmethod
    def _read(self, fields: Mapping[str, Any], abilities: Abilities) -> tuple[Asked, Any]:
        """What is asked, and vLLM's request for it."""

    @abstractmethod
    async def _generate(self, exchange: _Exchange, raw: Request) -> Any:
        """What vLLM's serving object answers: an object, a stream of events, or an error."""

    async def _answer(self, exchange: _Exchange, raw_request: Request) -> Response:
        """vLLM's response, as its own handler makes it."""
        settled, heard = exchange.settled, exchange.heard
        result = await self._generate(exchange, raw_request)
        if isinstance(result, ErrorResponse):
            exchange.state.metrics.refused(str(result.error.type))
            return JSONResponse(result.model_dump(), status_code=result.error.code)
        if exchange.views.stream:
            interval = float(getattr(raw_request.app.state.args, "sse_keep_alive_interval", 0))
            events = with_sse_keep_alive(with_reports(result, settled, heard), interval)
            return _EventStream(events, exchange.engine)
        headers = metrics_header(raw_request.headers.get(LOAD_FORMAT_HEADER, ""))
        return JSONResponse(with_report(result.model_dump(), report_of(settled, heard)), headers=headers)


class ChatAnswering(Answering):
    """`/v1/chat/completions`."""

    def _read(self, fields: Mapping[str, Any], abilities: Abilities) -> tuple[Asked, ChatViews]:
        request = parse_chat(fields).request
        if not isinstance(request, ChatRequest) or request.asymspec is None:
            raise UnsupportedRequestError("asymspec is missing")
        messages = views_of_images(request.messages, request.asymspec, abilities.images)
        wanted = asked(request, abilities, shows_images=messages.shown is not None)
        wanted = replace(wanted, fallbacks=(*wanted.fallbacks, *messages.fallbacks))
        wanted = _with_own(wanted, replace(request, messages=messages.full), abilities)
        sees = abilities.images is not None
        return wanted, chat_views(fields, messages, request.asymspec.tools, sees=sees)

    async def _generate(self, exchange: _Exchange, raw: Request) -> Any:
        stock = raw.app.state.openai_serving_chat
        serving = on_views(ChatOnViews, stock, exchange.settled, exchange.engine)
        serving.seen_views = exchange.state.seen_views
        return await serving.create_chat_completion(exchange.views, raw)


class CompletionAnswering(Answering):
    """`/v1/completions`."""

    default_tokens = DEFAULT_COMPLETION_TOKENS

    def _read(self, fields: Mapping[str, Any], abilities: Abilities) -> tuple[Asked, CompletionViews]:
        request = parse_completion(fields).request
        wanted = asked(request, abilities)
        if not isinstance(request, CompletionRequest) or request.asymspec is None:
            raise UnsupportedRequestError("asymspec is missing")
        wanted = _with_own(wanted, request, abilities)
        return wanted, completion_views(fields, request.prompt, request.asymspec.prompt)

    async def _generate(self, exchange: _Exchange, raw: Request) -> Any:
        stock = raw.app.state.openai_serving_completion
        serving = on_views(CompletionOnViews, stock, exchange.settled, exchange.engine)
        return await serving.create_completion(exchange.views, raw)


def _with_own(wanted: Asked, request: AnyRequest, abilities: Abilities) -> Asked:
    """The same with what a drafter of another family reads of the request."""
    if abilities.own_views is None or wanted.is_plain:
        return wanted
    return replace(wanted, own=abilities.own_views.read(request))


def _check_plain(fields: Mapping[str, Any]) -> None:
    """Keeps plain requests from reaching the engine as malformed AsymSpec ones."""
    xargs = fields.get("vllm_xargs")
    if isinstance(xargs, Mapping) and EXTRA_ARG in xargs:
        raise UnsupportedRequestError(f"vllm_xargs.{EXTRA_ARG}: send the `asymspec` object instead")


def _failed(failure: Failure) -> JSONResponse:
    return JSONResponse(failure.body(), failure.status, dict(failure.headers))
