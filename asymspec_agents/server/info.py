"""What a server says of itself, and its token counts."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol, runtime_checkable

from starlette.requests import Request
from starlette.responses import Response

from .._version import __version__
from ..backends.request import AnyRequest
from ..wire.failures import Failure
from ..wire.handshake import ServerInfo
from ..wire.json_body import json_object
from ..wire.requests import parse_chat, parse_completion
from .answering import Models
from .body import read_body
from .failing import NOT_SERVING, RefusedError, failure_response, logged_failure
from .options import ServerOptions
from .queue import DecodeQueue
from .rendering import ASCIIResponse

__all__ = ["Info", "Tokenizes"]


@runtime_checkable
class Tokenizes(Protocol):
    """A backend that can say which token ids a request's full view has."""

    def prompt_ids(self, request: AnyRequest) -> list[int]: ...


class Info:
    """The endpoints beside the completions."""

    def __init__(self, models: Models, queue: DecodeQueue, options: ServerOptions) -> None:
        self._models = models
        self._queue = queue
        self._options = options
        self._created = int(time.time())

    async def health(self, request: Request) -> Response:
        """200 while requests are decoded."""
        if not self._queue.is_alive:
            return failure_response(NOT_SERVING)
        return ASCIIResponse({"status": "ok", "num_requests": self._queue.num_requests})

    async def version(self, request: Request) -> Response:
        """The package's version."""
        return ASCIIResponse({"version": __version__})

    async def list_models(self, request: Request) -> Response:
        """OpenAI's list of models."""
        return ASCIIResponse(
            {"object": "list", "data": [self._model(name) for name in self._models.backends]}
        )

    async def one_model(self, request: Request) -> Response:
        """OpenAI's model object; names of hub models have slashes."""
        name: str = request.path_params["name"]
        if name not in self._models.backends:
            known = ", ".join(self._models.backends)
            text = f"model={name[:200]!r} is not here; models: {known}"
            return failure_response(Failure(404, "model_not_found", text, "model"))
        return ASCIIResponse(self._model(name))

    async def asymspec(self, request: Request) -> Response:
        """The handshake: protocol version, models, modes, limits of both views."""
        name = self._models.default
        backend = self._models.backends[name]
        info = ServerInfo.of(backend.capabilities, verifier=name, tokenize=isinstance(backend, Tokenizes))
        return ASCIIResponse(info.model_dump(mode="json"))

    async def tokenize(self, request: Request) -> Response:
        """Token ids of a prompt or of messages (and tools) with the chat template, as vLLM's endpoint."""
        try:
            body = await read_body(request, self._options.max_body_bytes)
            return ASCIIResponse(await asyncio.to_thread(self._tokens, body))
        except Exception as error:
            return failure_response(logged_failure(error, request.state.request_id))

    def _tokens(self, body: bytes) -> dict[str, Any]:
        fields = json_object(body)
        incoming = parse_chat(fields) if "messages" in fields else parse_completion(fields)
        backend = self._models.backends[self._models.choose(incoming)]
        if not isinstance(backend, Tokenizes):
            raise RefusedError(Failure(404, "not_found", "this server counts no tokens"))
        ids = backend.prompt_ids(incoming.request)
        limit = backend.capabilities.max_verifier_tokens
        return {"count": len(ids), "max_model_len": limit, "tokens": ids}

    def _model(self, name: str) -> dict[str, Any]:
        limit = self._models.backends[name].capabilities.max_verifier_tokens
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": "asymspec-agents",
            "max_model_len": limit,
        }
