"""What every request passes first: its id and its key. Plain ASGI, so that streams pass untouched."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection, Sequence
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..backends.request import new_request_id
from ..wire.failures import Failure
from .failing import failure_response

__all__ = ["Guard"]

_SAFE_ID = re.compile(r"[!-~]{1,256}")  # visible ASCII: no line ends for a header or a log


# RFC 9112, 6.1 and 11.2: whoever reads the other one takes what is body here for a request of its own.
TWO_LENGTHS = Failure(
    400,
    "bad_request",
    "more than one content-length, or transfer-encoding as well: send one of them, once",
    headers={"connection": "close"},
)


class Guard:
    """Gives each request an id (the client's `X-Request-Id` if it is harmless) and checks its API key.

    Requests whose body has two lengths are refused.

    `open_paths` need no key. Sets `request_id` and `tenant` in the request's state; `tenant` is None where no
    keys are configured, else a hash that is different for every key.
    """

    def __init__(
        self, app: ASGIApp, api_keys: Sequence[str], open_paths: Collection[str] = ("/health",)
    ) -> None:
        self._app = app
        self._open_paths = frozenset(open_paths)
        self._tenants = {hashlib.sha256(key.encode()).digest() for key in api_keys}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        wanted = headers.get("x-request-id", "")
        state: dict[str, Any] = scope.setdefault("state", {})
        state["request_id"] = wanted if _SAFE_ID.fullmatch(wanted) else new_request_id()
        state["tenant"] = None

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["x-request-id"] = state["request_id"]
            await send(message)

        lengths = headers.getlist("content-length")
        has_two = len(lengths) > 1 or "," in "".join(lengths)
        if has_two or (lengths and "transfer-encoding" in headers):
            await failure_response(TWO_LENGTHS)(scope, receive, send_with_id)
            return
        path = scope["path"].removeprefix(scope.get("root_path", ""))  # where the application is mounted
        if self._tenants and path not in self._open_paths:
            tenant = self._tenant(headers.get("authorization", ""))
            if tenant is None:
                await failure_response(_refusal(headers))(scope, receive, send_with_id)
                return
            state["tenant"] = tenant
        await self._app(scope, receive, send_with_id)

    def _tenant(self, authorization: str) -> str | None:
        scheme, _, key = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return None
        given = hashlib.sha256(key.strip().encode("latin-1", "replace")).digest()
        # All are compared, whichever matches: the time taken tells nothing.
        matches = [hmac.compare_digest(given, known) for known in self._tenants]
        return given.hex()[:32] if any(matches) else None


def _refusal(headers: Headers) -> Failure:
    text = "the API key is wrong" if "authorization" in headers else "an API key is needed"
    return Failure(
        401,
        "invalid_api_key",
        f"{text}; send the header Authorization: Bearer <key>",
        headers={"www-authenticate": "Bearer"},
    )
