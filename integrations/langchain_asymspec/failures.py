"""What a call raises: this package's exceptions, each of which is LangChain's own for the same thing as well.

So `except asymspec_agents.errors.ServerError` and `except langchain_core.exceptions.ModelRateLimitError` both
catch a refused call, and middleware that waits for LangChain's ContextOverflowError sees one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from asymspec_agents import errors

from . import _compat

__all__ = [
    "ChatAuthenticationError",
    "ChatBackendError",
    "ChatConfigurationError",
    "ChatConnectionFailedError",
    "ChatContextOverflowError",
    "ChatInvalidRequestError",
    "ChatMessageError",
    "ChatNotAsymSpecError",
    "ChatNotFoundError",
    "ChatPermissionDeniedError",
    "ChatRateLimitError",
    "ChatResponseTimeoutError",
    "ChatServerError",
    "ChatServerOverflowError",
    "ChatUnsupportedRequestError",
    "as_langchain_errors",
]


class ChatContextOverflowError(errors.ContextOverflowError, _compat.ContextOverflowError):
    """A view exceeds its limit."""


class ChatConfigurationError(errors.ConfigurationError, _compat.ModelInvalidRequestError):
    """An option of the call is unknown or out of its range."""


class ChatUnsupportedRequestError(errors.UnsupportedRequestError, _compat.ModelInvalidRequestError):
    """The call asks for what the method or the backend cannot do."""


class ChatMessageError(errors.MessageError, _compat.ModelInvalidRequestError):
    """A message or tool is malformed."""


class ChatBackendError(errors.BackendError, _compat.ModelAPIError):
    """The backend failed to answer."""


class ChatConnectionFailedError(errors.ConnectionFailedError, _compat.ModelConnectionError):
    """The server cannot be reached, or went away before the answer was whole."""


class ChatResponseTimeoutError(errors.ResponseTimeoutError, _compat.ModelTimeoutError):
    """The server was silent for too long."""


class ChatNotAsymSpecError(errors.NotAsymSpecError, _compat.ModelError):
    """The server does not speak AsymSpec, or another version of it."""


class ChatServerError(errors.ServerError, _compat.ModelAPIError):
    """The server failed (5xx)."""


class ChatInvalidRequestError(errors.ServerError, _compat.ModelInvalidRequestError):
    """The server refused the request (4xx)."""


class ChatServerOverflowError(errors.ServerError, _compat.ContextOverflowError):
    """The server says that the request is too long, but not which view, and how long."""


class ChatAuthenticationError(errors.ServerError, _compat.ModelAuthenticationError):
    """The server wants another key (401)."""


class ChatPermissionDeniedError(errors.ServerError, _compat.ModelPermissionDeniedError):
    """The key may not do this (403)."""


class ChatNotFoundError(errors.ServerError, _compat.ModelNotFoundError):
    """The server knows no such model or path (404)."""


class ChatRateLimitError(errors.ServerError, _compat.ModelRateLimitError):
    """The server is asked too often (429)."""


_TOO_LONG = "maximum context length"  # as stock vLLM says it, without a code

_OF_STATUS: Mapping[int, type[errors.ServerError]] = {
    401: ChatAuthenticationError,
    403: ChatPermissionDeniedError,
    404: ChatNotFoundError,
    429: ChatRateLimitError,
}
# The most derived first: an error is what the first of these is that it belongs to.
_TWINS: Mapping[type[errors.AsymSpecError], type[errors.AsymSpecError]] = {
    errors.ContextOverflowError: ChatContextOverflowError,
    errors.UnsupportedRequestError: ChatUnsupportedRequestError,
    errors.ConfigurationError: ChatConfigurationError,
    errors.MessageError: ChatMessageError,
    errors.ConnectionFailedError: ChatConnectionFailedError,
    errors.ResponseTimeoutError: ChatResponseTimeoutError,
    errors.NotAsymSpecError: ChatNotAsymSpecError,
    errors.BackendError: ChatBackendError,
}


@contextlib.contextmanager
def as_langchain_errors() -> Iterator[None]:
    """Raises what the block raises in a form that is LangChain's exception too; others pass as they are."""
    try:
        yield
    except errors.AsymSpecError as error:
        if isinstance(error, _compat.ModelError):
            raise
        twin = _twin(error)
        if twin is None:
            raise
        raise twin from error


def _twin(error: errors.AsymSpecError) -> errors.AsymSpecError | None:
    if isinstance(error, errors.ContextOverflowError):
        return ChatContextOverflowError(error.view, error.num_tokens, error.limit, error.advice)
    if isinstance(error, errors.ServerError):
        of_status: type[errors.ServerError] = (
            ChatInvalidRequestError if 400 <= error.status < 500 else ChatServerError
        )
        if error.code == "context_length_exceeded" or (error.status == 400 and _TOO_LONG in str(error)):
            of_status = ChatServerOverflowError
        return _OF_STATUS.get(error.status, of_status)(str(error), error.status, error.code)
    for kind, twin in _TWINS.items():
        if isinstance(error, kind):
            return twin(str(error))
    return None
