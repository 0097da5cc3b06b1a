"""HTTP to one server: retries, timeouts, cancellation, and errors as this package's exceptions."""

from __future__ import annotations

import asyncio
import contextlib
import json
import string
import urllib.parse
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from .._version import __version__
from ..errors import (
    BackendError,
    ConfigurationError,
    ConnectionFailedError,
    ResponseTimeoutError,
    ServerError,
)
from ..wire import sse
from ..wire.failures import raise_error
from ..wire.reading import read_object
from .connection_options import ConnectionOptions
from .retries import RETRIED_STATUSES, pause_s

__all__ = ["Connection"]

WRITE_TIMEOUT_S = 60.0
PLAIN_ID_CHARACTERS = string.punctuation.replace("%", "")  # beside letters and digits


class Connection:
    """A connection pool; every method must be awaited in the same event loop."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        headers = httpx.Headers({"user-agent": f"asymspec-agents/{__version__}"})
        if options.api_key is not None:
            headers["authorization"] = f"Bearer {options.api_key}"
        for name, value in options.headers.items():
            headers[name] = value
        self._client = httpx.AsyncClient(
            headers=headers,
            timeout=httpx.Timeout(
                options.timeout_s, connect=options.connect_timeout_s, write=WRITE_TIMEOUT_S, pool=None
            ),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=20),
        )

    async def close(self) -> None:
        """Closes every connection."""
        await self._client.aclose()

    async def get(self, path: str) -> Mapping[str, Any]:
        """The JSON object at `path`. Raises ServerError with the status for an error answer."""
        async with self._answer("GET", path, None, None) as response:
            return read_object(await response.aread())

    async def text(self, path: str) -> str:
        """What stands at `path`, as text. Raises ServerError with the status for an error answer."""
        async with self._answer("GET", path, None, None) as response:
            await response.aread()
            return response.text

    async def post(
        self,
        path: str,
        body: Mapping[str, Any],
        request_id: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Mapping[str, Any]:
        """The JSON object that answers `body`; `headers` go with this request alone."""
        async with self._answer("POST", path, body, request_id, headers) as response:
            return read_object(await response.aread())

    async def events(
        self,
        path: str,
        body: Mapping[str, Any],
        request_id: str,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Mapping[str, Any]]:
        """The JSON objects of the stream that answers `body`, to its end.

        Raises ConnectionFailedError where the connection ends without the stream's own end.
        """
        async with self._answer("POST", path, body, request_id, headers) as response:
            kind = response.headers.get("content-type", "")
            if not kind.startswith("text/event-stream"):
                raise BackendError(f"{self._options.base_url} answered a stream request with {kind!r}")
            parser = sse.EventParser()
            async for chunk in response.aiter_bytes():
                for data in parser.feed(chunk):
                    if data == sse.DONE:
                        return
                    yield read_object(data)
        raise ConnectionFailedError(
            f"{self._options.base_url} ended the stream of request {request_id} before the answer was whole"
        )

    @contextlib.asynccontextmanager
    async def _answer(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        request_id: str | None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """A successful response, its body unread; whatever goes wrong is raised as an exception of ours."""
        server = self._options.base_url
        named = f" (request {request_id})" if request_id else ""
        try:
            response = await self._sent(method, path, body, request_id, headers)
            try:
                if response.status_code >= 300:
                    await self._raise(response)
                yield response
            finally:
                await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            reason = str(error) or "no answer in time"
            raise ConnectionFailedError(
                f"cannot connect to {server}: {reason}; is the server running, and the address right?"
            ) from error
        except httpx.WriteTimeout as error:
            raise ResponseTimeoutError(f"{server} took no bytes for {WRITE_TIMEOUT_S:g} s{named}") from error
        except httpx.TimeoutException as error:
            raise ResponseTimeoutError(
                f"{server} sent nothing for {self._options.timeout_s:g} s{named}; a longer timeout_s may help"
            ) from error
        except httpx.TransportError as error:
            reason = str(error) or type(error).__name__
            raise ConnectionFailedError(
                f"the connection to {server} was lost before the answer was whole{named}: {reason}"
            ) from error
        except (httpx.DecodingError, httpx.InvalidURL) as error:
            raise BackendError(f"{server} sent what is no valid answer{named}: {error}") from error

    async def _raise(self, response: httpx.Response) -> None:
        """Raises what an error answer, or a redirect, stands for."""
        server, status = self._options.base_url, response.status_code
        if status < 400:
            target = response.headers.get("location", "an address it does not name")
            raise ServerError(
                f"{server} answered with {status}, a redirect to {target}: give that server's own address "
                "as base_url",
                status,
            )
        raise_error(status, _error_body(await response.aread()), server)

    async def _sent(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        request_id: str | None,
        more: Mapping[str, str] | None,
    ) -> httpx.Response:
        headers = dict(more or {})
        content: bytes | None = None
        if request_id is not None:
            headers["x-request-id"] = _header_id(request_id)
        if body is not None:
            headers["content-type"] = "application/json"
            # A long conversation as JSON takes a while: not in the loop that others wait for.
            content = await asyncio.to_thread(_encoded, body)
        request = self._client.build_request(
            method, self._options.base_url + path, content=content, headers=headers
        )
        attempt = 0
        while True:
            is_last = attempt == self._options.max_retries
            try:
                response = await self._client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if is_last:
                    raise
                pause = pause_s(attempt)
            else:
                if is_last or response.status_code not in RETRIED_STATUSES:
                    return response
                await response.aclose()
                pause = pause_s(attempt, response.headers.get("retry-after"))
            await asyncio.sleep(pause)
            attempt += 1


def _encoded(body: Mapping[str, Any]) -> bytes:
    """The JSON text, in ASCII: lone surrogates, which tool outputs do contain, have no UTF-8."""
    try:
        return json.dumps(body, allow_nan=False, separators=(",", ":")).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(f"the request cannot be written as JSON: {error}") from error


def _header_id(request_id: str) -> str:
    """The id as a header can hold it: what is not visible ASCII is percent-encoded."""
    return urllib.parse.quote(request_id, safe=PLAIN_ID_CHARACTERS, errors="surrogatepass")


def _error_body(text: bytes) -> Mapping[str, Any] | None:
    try:
        return read_object(text)
    except BackendError:
        return None
