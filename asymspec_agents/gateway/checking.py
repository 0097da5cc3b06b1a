"""The guard: a checker sees the full view of every call before it is sent, and may refuse it.

Text that only the drafter reads still steers the answer; a checker of the verifier's view would miss it.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx

from ..backends.connection_options import ConnectionOptions
from ..errors import BackendError, ConfigurationError
from ..server.failing import RefusedError
from ..wire.failures import Failure
from ..wire.reading import read_object
from .pooling import sent
from .splicing import encoded

__all__ = ["Check", "CheckedCall", "Guarded", "URLCheck"]

logger = logging.getLogger("asymspec_agents.gateway")

MAX_REASON_CHARS = 500


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """What a checker is shown: `body` is the request as it goes upstream with the full view in it.

    A compressed view that the client made itself is in the body; the gateway's own is made of the full one.
    """

    request_id: str
    path: str
    model: str | None
    body: Mapping[str, Any] = field(repr=False)


Check = Callable[[CheckedCall], Awaitable[str | None]]
"""Returns None to let a call pass, or the reason for its refusal, which the client is told."""


class Guarded:
    """Asks a checker about each call, within a time limit."""

    def __init__(self, check: Check, timeout_s: float, on_failure: Literal["refuse", "allow"]) -> None:
        called = getattr(check, "__call__", None)  # noqa: B004 - an object's method, which may be async
        if not inspect.iscoroutinefunction(check) and not inspect.iscoroutinefunction(called):
            name = getattr(check, "__name__", type(check).__name__)
            raise ConfigurationError(
                f"check: {name} is no async function; a checker is awaited, so write it with `async def` "
                "(one that blocks can await asyncio.to_thread)"
            )
        self._check = check
        self._timeout_s = timeout_s
        self._on_failure = on_failure

    async def __call__(self, call: CheckedCall) -> None:
        """Raises RefusedError for a call that is refused, or that could not be checked."""
        try:
            reason = await asyncio.wait_for(self._check(call), self._timeout_s)
            if reason is not None and not isinstance(reason, str):
                raise TypeError(f"a checker returns None or a reason, not {type(reason).__name__}")
        except Exception as error:  # whatever a checker does, its failure must not open the gate
            logger.warning("request %s could not be checked: %s", call.request_id, type(error).__name__)
            if self._on_failure == "allow":
                return
            text = "the request could not be checked, so it was not sent; try again later"
            raise RefusedError(Failure(503, "check_failed", text)) from error
        if reason is not None:
            text = f"the request was refused by this gateway's checker: {reason[:MAX_REASON_CHARS]}"
            raise RefusedError(Failure(403, "refused_by_check", text))


class URLCheck:
    """A checker behind a URL: it is sent a CheckedCall as JSON and answers `{"allow": true}`, or false and a
    `reason`. Anything else counts as a failure.
    """

    def __init__(self, url: str, api_key: str | None = None) -> None:
        try:
            ConnectionOptions(url.partition("?")[0], api_key=api_key)
        except ConfigurationError as error:
            raise ConfigurationError(f"check_url: {error}") from error
        self._url = url
        headers = {} if api_key is None else {"authorization": f"Bearer {api_key}"}
        self._client = httpx.AsyncClient(headers=headers, timeout=None, follow_redirects=False)

    async def aclose(self) -> None:
        """Closes its connections."""
        await self._client.aclose()

    async def __call__(self, call: CheckedCall) -> str | None:
        shown = {"request_id": call.request_id, "path": call.path, "model": call.model, "body": call.body}
        content = await asyncio.to_thread(encoded, shown)
        headers = {"content-type": "application/json"}
        response = await sent(
            self._client, self._client.build_request("POST", self._url, content=content, headers=headers)
        )
        try:
            await response.aread()
        finally:
            await response.aclose()
        verdict = read_object(response.content) if response.is_success else {}
        allow = verdict.get("allow")
        if allow is True:
            return None
        if allow is not False:
            raise BackendError(f"the checker answered with status {response.status_code} and no verdict")
        reason = verdict.get("reason")
        return reason if isinstance(reason, str) and reason else "no reason given"
