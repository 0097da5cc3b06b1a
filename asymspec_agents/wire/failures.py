"""Errors in OpenAI's form: exceptions to a status and an error object, and back to the same exceptions.

Source: OpenAI API reference, error object (`message`, `type`, `param`, `code`). An over-long view adds
`view`, `num_tokens` and `limit`, so that a client can raise the error the engine raised.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from ..errors import (
    AsymSpecError,
    ConfigurationError,
    ContextOverflowError,
    MessageError,
    RequestAbortedError,
    ServerError,
    UnsupportedRequestError,
)
from ..protocol import AsymSpecRequest
from .requests import ChatBody, CompletionBody

__all__ = ["NO_REASON", "Failure", "failure_of", "raise_error"]

NO_REASON = "no reason given"
"""What stands in an exception's text where the server's error has no message."""

# The beginning of every text about a field: its path, then `=value`, a colon or a blank.
_FIELD = re.compile(r"(?:asymspec: (?=[a-z_]+=))?([a-z_]+)(?:\[\d+\]|\.[a-z_]\w*)*(?=[=: ])")
_BODY_FIELDS = ChatBody.model_fields.keys() | CompletionBody.model_fields.keys()
_ASYMSPEC_FIELDS = AsymSpecRequest.model_fields.keys() - _BODY_FIELDS


@dataclass(frozen=True, slots=True)
class Failure:
    """An error as it goes over HTTP: status, and OpenAI's error object with further fields of `more`."""

    status: int
    code: str
    message: str
    param: str | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """The JSON body."""
        kind = "invalid_request_error" if self.status < 500 else "server_error"
        error = {"message": self.message, "type": kind, "param": self.param, "code": self.code}
        return {"error": {**error, **self.more}}


def failure_of(error: BaseException, full_view: str = "messages") -> Failure:
    """The failure an exception stands for; what is nobody's fault but ours is a 500 without its text.

    `full_view` is the field that holds the full view.
    """
    text = str(error)
    if isinstance(error, ContextOverflowError):
        more = {"view": error.view, "num_tokens": error.num_tokens, "limit": error.limit}
        param = full_view if error.view == "full" else "asymspec"
        return Failure(400, "context_length_exceeded", text, param, more)
    if isinstance(error, MessageError):
        return Failure(400, "invalid_messages", text, _param(text))
    if isinstance(error, UnsupportedRequestError):
        return Failure(400, "unsupported_value", text, _param(text))
    if isinstance(error, ConfigurationError):
        return Failure(400, "invalid_value", text, _param(text))
    if isinstance(error, RequestAbortedError):  # not by its client, who would not hear of it
        return Failure(503, "request_aborted", text)
    if isinstance(error, AsymSpecError):
        return Failure(500, "engine_error", text)
    return Failure(500, "internal_error", f"internal error ({type(error).__name__}); the server's log has it")


def _param(text: str) -> str | None:
    """The field that a text begins with; a bare word counts only where it is one of ours."""
    match = _FIELD.match(text)
    if match is None:
        return None
    path = match[0].replace("asymspec: ", "asymspec.")
    if match[1] in _ASYMSPEC_FIELDS and not path.startswith("asymspec."):
        return f"asymspec.{path}"
    is_sure = match[1] in _BODY_FIELDS or path != match[1] or text[match.end()] != " "
    return path if is_sure else None


def raise_error(status: int, body: Mapping[str, Any] | None, server: str) -> NoReturn:
    """Raises what a server's error answer stands for.

    An AsymSpec server's refusals come back as the exceptions the engine raises in this process; everything
    else is a ServerError with the status. `body` None: the answer was no JSON. `status` 200: the error came
    inside a stream, where the status is the error's own number or, without one, its type's.
    """
    details = _details(body or {})
    text, code = _text(details.get("message")) or NO_REASON, details.get("code")
    if code == "context_length_exceeded" and details.get("view") in ("full", "compressed"):
        num_tokens, limit = details.get("num_tokens"), details.get("limit")
        if isinstance(num_tokens, int) and isinstance(limit, int):
            _, _, advice = text.partition("; ")
            raise ContextOverflowError(details["view"], num_tokens, limit, advice)
    refusals: Mapping[str, type[AsymSpecError]] = {
        "invalid_messages": MessageError,
        "unsupported_value": UnsupportedRequestError,
        "invalid_value": ConfigurationError,
    }
    if isinstance(code, str) and code in refusals:
        raise refusals[code](text)
    if status == 200:
        is_refusal = details.get("type") == "invalid_request_error"
        status = code if isinstance(code, int) and 400 <= code < 600 else 400 if is_refusal else 500
    raise ServerError(
        f"{server} answered with {status}: {text}", status, code if isinstance(code, str) else None
    )


def _details(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The error object, wherever a server puts it: OpenAI's place, the top as older vLLM, or a bare text."""
    for place in (body.get("error"), body.get("detail"), body):
        if isinstance(place, Mapping):
            return place
        if place:
            return {"message": place}
    return {}


def _text(message: object) -> str:
    if message is None or isinstance(message, str):
        return message or ""
    return json.dumps(message, ensure_ascii=False)[:1_000]
