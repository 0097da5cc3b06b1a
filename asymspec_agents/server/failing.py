"""A server's errors as responses, all of one shape."""

from __future__ import annotations

import logging
import traceback

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ..errors import RequestAbortedError
from ..tokens import clean_text
from ..wire.failures import Failure, failure_of
from .rendering import ASCIIResponse

__all__ = ["NOT_SERVING", "RefusedError", "failure_response", "http_failure", "logged_failure"]

logger = logging.getLogger("asymspec_agents.server")

NOT_SERVING = Failure(503, "not_serving", "the engine has stopped; restart the server")
CODES = {404: "not_found", 405: "method_not_allowed"}


class RefusedError(Exception):
    """A request that this server refuses before any backend sees it."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def logged_failure(error: BaseException, request_id: str, full_view: str = "messages") -> Failure:
    """The failure of an exception; what no client caused is logged with its traceback."""
    failure = error.failure if isinstance(error, RefusedError) else failure_of(error, full_view)
    if failure.status >= 500 and not isinstance(error, RequestAbortedError):
        # As text, and cleaned: a log that takes UTF-8 cannot write the lone surrogates of somebody's message.
        told = clean_text("".join(traceback.format_exception(error)))
        logger.error("request %s failed\n%s", request_id, told)
    return failure


def failure_response(failure: Failure) -> ASCIIResponse:
    """The response to a failed request."""
    return ASCIIResponse(failure.body(), failure.status, dict(failure.headers))


def _places(request: Request) -> list[str]:
    """Where completions are made in the application that the request came to."""
    paths = [getattr(route, "path", "") for route in request.app.routes]
    return [path for path in paths if path.startswith("/v1/") and path.endswith(("completions", "responses"))]


async def http_failure(request: Request, error: Exception) -> Response:
    """The response to a request without a route, or to one whose endpoint failed unforeseen."""
    if not isinstance(error, HTTPException):
        return failure_response(failure_of(error))
    status, path = error.status_code, request.url.path[:200]
    if status == 404:
        text = f"there is no {path} here; the API is at " + ", ".join(_places(request))
    elif status == 405:
        text = f"{request.method} {path} is not allowed"
    else:
        text = str(error.detail)
    code = CODES.get(status, "invalid_request")
    return failure_response(Failure(status, code, text, headers=dict(error.headers or {})))
