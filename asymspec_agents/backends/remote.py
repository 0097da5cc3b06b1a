"""What a client knows of one server: how to reach it, what it says of itself, how it is asked."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from ..errors import (
    BackendError,
    NotAsymSpecError,
    RequestAbortedError,
    ServerError,
    UnsupportedRequestError,
)
from ..messages import Message, ToolSpec
from ..protocol import AsymSpecReport
from ..wire.handshake import PATH, ServerInfo
from ..wire.requests import request_body
from .answer import Usage
from .connection import Connection
from .connection_options import ConnectionOptions
from .loop_thread import LoopThread, at_stop
from .plain_arms import as_plain, plain_report
from .request import AnyRequest, ChatRequest

__all__ = ["Call", "Remote", "closed_error"]

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
OnMissing = Literal["error", "warn"]


@dataclass(frozen=True, slots=True)
class Call:
    """What is sent for a request, and what its answer must bring."""

    path: str
    body: Mapping[str, Any]
    arm: str
    wants_report: bool
    server: str

    def report(self, given: AsymSpecReport | None, usage: Usage | None) -> AsymSpecReport | None:
        """The answer's report. Raises NotAsymSpecError where an AsymSpec request was answered without one."""
        if not self.wants_report:
            return None
        if self.arm != "asymspec":
            return plain_report(self.arm, usage or Usage(0, 0))
        if given is None:
            raise NotAsymSpecError(
                f"{self.server} answered an AsymSpec request without a report, so without the method"
            )
        return given


class Remote:
    """One server, shared by the backends of all arms."""

    def __init__(self, options: ConnectionOptions, model: str | None, on_missing: OnMissing) -> None:
        self.options = options
        self.loop = LoopThread()
        self._model = model
        self._on_missing = on_missing
        self._info: ServerInfo | None = None
        self._connection: Connection | None = None
        self._connection_loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """The coroutine's result, waited for."""
        future = self.loop.submit(coroutine)
        try:
            return future.result()
        except CancelledError:
            raise closed_error() from None
        except BaseException:  # Ctrl-C as well: the server must not go on
            future.cancel()
            raise

    def connection(self) -> Connection:
        """The pool of the loop that this is called in."""
        loop = asyncio.get_running_loop()
        if self._connection is None or self._connection_loop is not loop:
            self._connection, self._connection_loop = Connection(self.options), loop
            at_stop(self._connection.close)
        return self._connection

    async def info(self) -> ServerInfo:
        """What the server says of itself, asked once. Raises NotAsymSpecError where that is not AsymSpec."""
        if self._info is None:
            info = await self._ask()
            if self._info is None:  # several calls may have asked at once
                self._info = info
                if not info.modes:
                    logger.warning(
                        "%s is no AsymSpec server: it answers plainly, from the full context",
                        self.options.base_url,
                    )
        return self._info

    async def call(self, request: AnyRequest, arm: str, asked_model: str | None = None) -> Call:
        """How this request is sent for that arm, to that model where it is not the usual one."""
        info = await self.info()
        speaks = bool(info.modes)
        if asked_model is not None and asked_model == info.drafter != info.verifier and arm == "asymspec":
            arm = "drafter"
        asked = request if arm == "asymspec" and speaks else as_plain(request, arm)
        model = asked_model or self._model or info.verifier
        if arm == "drafter":
            if info.drafter is None:
                raise UnsupportedRequestError(f'arm="drafter": {self.options.base_url} names no drafter')
            model = info.drafter
        path = "/v1/chat/completions" if isinstance(asked, ChatRequest) else "/v1/completions"
        # Rendering a long conversation takes a while: not in the loop that others wait for.
        body = await asyncio.to_thread(request_body, asked, model)
        return Call(
            path=path,
            body=body,
            arm=arm,
            wants_report=request.asymspec is not None and (speaks or arm != "asymspec"),
            server=self.options.base_url,
        )

    async def count(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec], model: str | None = None
    ) -> int:
        """The server's own count of a prompt's tokens."""
        info = await self.info()
        request = ChatRequest(messages=tuple(messages), tools=tuple(tools))
        body = await asyncio.to_thread(request_body, request, model or self._model or info.verifier)
        fields = ("model", "messages", "tools")
        answer = await self.connection().post("/tokenize", {k: body[k] for k in fields if k in body})
        count = answer.get("count")
        if not isinstance(count, int):
            raise BackendError(f"{self.options.base_url}/tokenize answered without a count")
        return count

    async def _ask(self) -> ServerInfo:
        server = self.options.base_url
        cause: BackendError | None = None
        try:
            info = ServerInfo.read(await self.connection().get(PATH))
            if info.modes:
                return info
            problem = f"its {PATH} names no modes"
        except NotAsymSpecError as error:
            problem, cause = str(error), error
        except BackendError as error:
            is_missing = isinstance(error, ServerError) and error.status in (404, 405, 501)
            if not is_missing and type(error) is not BackendError:  # which is: no JSON, so another server
                raise
            problem, cause = f"it has no {PATH}", error
        if self._on_missing == "error":
            raise NotAsymSpecError(
                f"{server} is no AsymSpec server for this client: {problem}. Start one with `asymspec "
                'serve`, or accept plain answers from the full context with on_missing_asymspec="warn"'
            ) from cause
        return ServerInfo(verifier=self._model or await self._first_model(), server="unknown")

    async def _first_model(self) -> str:
        answer = await self.connection().get("/v1/models")
        models = answer.get("data")
        first = models[0] if isinstance(models, list) and models else None
        name = first.get("id") if isinstance(first, Mapping) else None
        if not isinstance(name, str):
            raise BackendError(f"{self.options.base_url}/v1/models names no model; give model=…")
        return name


def closed_error() -> RequestAbortedError:
    """What a caller gets whose request ran when the backend was closed."""
    return RequestAbortedError("the backend was closed while the request ran")
