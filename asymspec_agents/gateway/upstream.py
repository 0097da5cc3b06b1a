"""One server behind the gateway: its connections, what it says of itself, a router within its limits."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from http.cookiejar import CookieJar, DefaultCookiePolicy

import anyio
import httpx

from ..backends.base import Capabilities
from ..backends.http import HTTPBackend
from ..errors import AsymSpecError, BackendError, NotAsymSpecError
from ..router import ContextRouter
from ..views.fitting import PromptCounter
from ..views.limits import ANSWER_TOKENS, within_limits
from ..views.policy import ViewPolicy
from ..wire.failures import Failure
from ..wire.handshake import PATH, ServerInfo
from ..wire.reading import read_object
from .failing import UpstreamError, upstream_failure
from .headers import RawHeaders
from .options import GatewayOptions, UpstreamOptions
from .pooling import sent

__all__ = ["MakeRouter", "Upstream"]

logger = logging.getLogger("asymspec_agents.gateway")

MakeRouter = Callable[[ViewPolicy, PromptCounter | None, Capabilities | None], ContextRouter]
"""Of a policy, a counter, and whether the upstream's drafter sees images."""

WRITE_S = 60.0
ASK_S = 10.0  # for a handshake, or a token count
KEEPALIVE_S = 4.0  # less than servers wait (uvicorn: 5), so that a call never meets a connection that closes
READY_S = 1.0  # how often a server is asked whether it is there
MAX_ROUTERS = 4  # for answers of different lengths, in steps of ANSWER_TOKENS
# Their answers to an unknown path say nothing about AsymSpec.
UNDECIDED = frozenset({403, 407, 408, 425, 429})


class Upstream:
    """A server to forward to; every coroutine must be awaited in the same event loop."""

    def __init__(self, options: UpstreamOptions, gateway: GatewayOptions, make_router: MakeRouter) -> None:
        self.options = options
        self._gateway = gateway
        self._make_router = make_router
        self._client = httpx.AsyncClient(
            timeout=httpx.Timeout(None, connect=gateway.connect_s, write=WRITE_S),
            limits=httpx.Limits(
                max_connections=None, max_keepalive_connections=100, keepalive_expiry=KEEPALIVE_S
            ),
            follow_redirects=False,
        )
        # The connections are shared, so one client's cookie must never go out with another one's request.
        self._client.cookies = httpx.Cookies(CookieJar(DefaultCookiePolicy(allowed_domains=[])))
        self._info: ServerInfo | None = None
        self._asked_s: float | None = None
        self._heard_s: float | None = None
        self._asking: asyncio.Task[ServerInfo | None] | None = None
        self._lock = threading.Lock()
        self._routers: OrderedDict[int, ContextRouter] = OrderedDict()
        self._counting: HTTPBackend | None = None

    async def close(self) -> None:
        """Closes every connection."""
        if self._asking is not None:
            self._asking.cancel()
        await self._client.aclose()
        if self._counting is not None:
            await asyncio.to_thread(self._counting.close)

    async def info(self, authorization: bytes | None = None) -> ServerInfo | None:
        """What the server says of itself; None where it is none of AsymSpec's.

        It is asked again in the background once its word is old, in the foreground only where there is none.
        `authorization` is the header of a client whose key is forwarded. Raises UpstreamError where it cannot
        be asked.
        """
        if self._asked_s is None:
            if self._gateway.forwards_client_key:  # whose refusal is no one else's
                return await self._ask(authorization)
            return await asyncio.shield(self._question(authorization))
        if time.monotonic() - self._asked_s >= self._gateway.handshake_s:
            self._question(authorization)
        return self._info

    async def present(self, authorization: bytes | None = None) -> ServerInfo | None:
        """As `info`, of a server that is there now: it is asked anew. Raises UpstreamError if it is not."""
        if self._heard_s is not None and time.monotonic() - self._heard_s < READY_S:
            return self._info
        return await asyncio.shield(self._question(authorization))

    def _question(self, authorization: bytes | None) -> asyncio.Task[ServerInfo | None]:
        """The question that is being asked, at most one at a time."""
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(authorization))
            self._asking.add_done_callback(_seen)
        return self._asking

    def doubt(self) -> None:
        """Has the server asked again before the next call: it did not do what it said."""
        self._asked_s = None

    async def _ask(self, authorization: bytes | None) -> ServerInfo | None:
        try:
            info = await self._handshake(authorization)
        except BackendError:
            if self._asked_s is not None:  # what was known stands, and is asked for again in a while
                self._asked_s = time.monotonic()
            raise
        self._asked_s = self._heard_s = time.monotonic()
        if info != self._info:
            with self._lock:
                self._info = info
                self._routers.clear()  # the limits may be others
        return info

    async def _handshake(self, authorization: bytes | None) -> ServerInfo | None:
        response = await self.get(PATH, authorization)
        if 300 <= response.status_code < 400:  # an unknown path may lead anywhere
            return None
        self.check_status(response.status_code)
        if response.status_code == 401:
            text = "the upstream refused the API key"
            raise UpstreamError(Failure(401, "invalid_api_key", text))
        if response.status_code >= 500 or response.status_code in UNDECIDED:
            raise upstream_failure(BackendError(f"{PATH} gives status {response.status_code}"))
        if response.status_code >= 300:
            return None
        try:
            info = ServerInfo.read(read_object(response.content))
        except NotAsymSpecError as error:
            logger.warning("an upstream is taken for a plain server: %s", error)
            return None
        except BackendError:  # no JSON
            return None
        return info if info.modes else None

    async def get(
        self, path: str, authorization: bytes | None = None, headers: RawHeaders | None = None
    ) -> httpx.Response:
        """The whole answer at `path`, whatever its status. Raises UpstreamError where there is none."""
        request = self._request("GET", path, None, self.authorized(headers or [], authorization))
        try:
            with anyio.fail_after(ASK_S):
                response = await sent(self._client, request)
                try:
                    await response.aread()
                finally:
                    await response.aclose()
                return response
        except (httpx.HTTPError, TimeoutError) as error:
            raise upstream_failure(error, ASK_S) from error

    async def post(self, path: str, content: bytes, headers: RawHeaders) -> httpx.Response:
        """The answer to this body, its content unread, which must be closed. Raises UpstreamError."""
        request = self._request("POST", path, content, headers)
        try:
            with anyio.fail_after(self._gateway.first_byte_s):
                return await sent(self._client, request)
        except (httpx.HTTPError, TimeoutError) as error:
            raise upstream_failure(error, self._gateway.first_byte_s) from error

    def check_status(self, status: int) -> None:
        """Raises UpstreamError for a redirect, and for a refusal of the gateway's own key."""
        if 300 <= status < 400:
            text = f"the upstream answered with {status}, a redirect, which a gateway does not follow"
            raise UpstreamError(Failure(502, "upstream_redirect", text))
        is_own_key = not self._gateway.forwards_client_key or self.options.api_key is not None
        if status in (401, 407) and is_own_key:
            text = "the upstream refused this gateway's key"
            raise UpstreamError(Failure(502, "upstream_refused_key", text))

    def authorized(self, headers: RawHeaders, authorization: bytes | None) -> RawHeaders:
        """The headers with the upstream's own key, or else with the client's where that is forwarded."""
        if self.options.api_key is not None:
            authorization = f"Bearer {self.options.api_key}".encode()
        elif not self._gateway.forwards_client_key:
            authorization = None
        return headers if authorization is None else [*headers, (b"authorization", authorization)]

    def _request(self, method: str, path: str, content: bytes | None, headers: RawHeaders) -> httpx.Request:
        own = [(b"accept-encoding", b"identity")]
        if content is not None:
            own.append((b"content-type", b"application/json"))
        # Made apart from the client, whose own default headers would be added to the caller's.
        return httpx.Request(
            method,
            self.options.base_url + path,
            headers=[*headers, *own],
            content=content,
            extensions={"timeout": self._client.timeout.as_dict()},
        )

    def router(self, max_answer_tokens: int | None) -> ContextRouter:
        """The router of calls that leave this much room for the answer; called in threads."""
        steps = -(-(max_answer_tokens or 1) // ANSWER_TOKENS)
        with self._lock:
            router = self._routers.get(steps)
            if router is None:
                policy = self._gateway.policy
                if self._info is not None:
                    limits = (self._info.max_verifier_tokens, self._info.max_drafter_tokens)
                    policy = within_limits(policy, *limits, steps * ANSWER_TOKENS)
                can = None if self._info is None else self._info.capabilities()
                router = self._make_router(policy, self._prompt_counter(), can)
                self._routers[steps] = router
                if len(self._routers) > MAX_ROUTERS:
                    self._routers.popitem(last=False)
            self._routers.move_to_end(steps)
            return router

    def _prompt_counter(self) -> PromptCounter | None:
        if self._info is None or not self._info.tokenize or self._gateway.forwards_client_key:
            return None
        if self._counting is None:
            self._counting = HTTPBackend(
                self.options.base_url,
                api_key=self.options.api_key,
                timeout_s=ASK_S,
                connect_timeout_s=min(ASK_S, self._gateway.connect_s),
                max_retries=0,
            )
        return self._counting.count_prompt


def _seen(task: asyncio.Task[ServerInfo | None]) -> None:
    """Takes the outcome of a question that nobody may have waited for."""
    if not task.cancelled() and (error := task.exception()) is not None:
        is_expected = isinstance(error, AsymSpecError)
        logger.warning("an upstream could not be asked what it is: %s", error if is_expected else type(error))
