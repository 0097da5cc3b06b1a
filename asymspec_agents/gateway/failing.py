"""What a gateway refuses, and how an upstream's failures look to a client."""

from __future__ import annotations

import httpx

from ..errors import BackendError
from ..wire.failures import Failure

__all__ = ["STOPPING", "UpstreamError", "model_missing", "upstream_failure"]

STOPPING = Failure(503, "gateway_stopping", "the gateway is stopping; send the request again")


class UpstreamError(BackendError):
    """An upstream failed to answer; `failure` is what the client hears."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def upstream_failure(error: Exception, waited_s: float | None = None) -> UpstreamError:
    """The failure of a call whose upstream could not be reached, was silent, or sent what is no answer.

    `waited_s` is how long it was silent. Addresses of upstreams are the operator's and stay out.
    """
    if isinstance(error, UpstreamError):
        return error
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        failure = Failure(502, "upstream_unreachable", "the upstream cannot be reached; try again later")
    elif isinstance(error, TimeoutError | httpx.TimeoutException):
        silence = "did not answer in time" if waited_s is None else f"sent nothing for {waited_s:g} s"
        failure = Failure(504, "upstream_timeout", f"the upstream {silence}")
    elif isinstance(error, httpx.RemoteProtocolError | httpx.NetworkError):
        text = "the upstream went away, or sent what is no HTTP, before its answer was whole"
        failure = Failure(502, "upstream_broken", text)
    else:
        failure = Failure(502, "upstream_broken", f"the upstream's answer is no answer: {error}")
    return UpstreamError(failure)


def model_missing(name: str | None, known: tuple[str, ...]) -> Failure:
    """The refusal of a model that no route names."""
    asked = "no model is named" if name is None else f"model={name[:200]!r} is not here"
    return Failure(404, "model_not_found", f"{asked}; models: {', '.join(known)}", "model")
