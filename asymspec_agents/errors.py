"""Every exception this package raises on purpose.

AsymSpecError
├── ConfigurationError (ValueError)     an option is unknown, missing or out of its range
│   └── UnsupportedRequestError         a valid request that cannot be served as asked
├── MessageError (ValueError)           a message, content part, tool or edit is malformed
├── ActionError (ValueError)            a model's answer holds no valid action
├── MissingDependencyError (ImportError)  an optional package is not installed
├── ContextOverflowError                a view is longer than its limit and may not be shortened
├── IncompatibleModelsError             verifier and drafter cannot work together
├── WeightsError                        model files cannot be found, fetched or converted
│   └── ChecksumError                   fetched bytes are not the published ones
├── BackendError                        a backend failed to answer
│   ├── ConnectionFailedError           a server cannot be reached, or went away before the answer was whole
│   ├── ResponseTimeoutError            a server was silent for too long
│   ├── ServerError                     a server answered with an error status
│   └── NotAsymSpecError                a server does not speak AsymSpec, or another version of it
└── RequestAbortedError                 the caller ended the request
"""

from __future__ import annotations

from typing import Any, Literal

__all__ = [
    "ActionError",
    "AsymSpecError",
    "BackendError",
    "ChecksumError",
    "ConfigurationError",
    "ConnectionFailedError",
    "ContextOverflowError",
    "IncompatibleModelsError",
    "MessageError",
    "MissingDependencyError",
    "NotAsymSpecError",
    "RequestAbortedError",
    "ResponseTimeoutError",
    "ServerError",
    "UnsupportedRequestError",
    "WeightsError",
]


class AsymSpecError(Exception):
    """Base of every error of this package."""


class ConfigurationError(AsymSpecError, ValueError):
    """An option is unknown, missing or out of its range; the text names field, value and limit."""


class UnsupportedRequestError(ConfigurationError):
    """A well-formed request asks for what the method or the backend cannot do (such as sampling)."""


class MessageError(AsymSpecError, ValueError):
    """A message, content part, tool or edit is malformed; the text says which and where."""


class ActionError(AsymSpecError, ValueError):
    """A model's answer holds no valid action; `raw_text` is the answer, untouched.

    `messages` are those of the step so far, for the history: each answer, and each error shown to the model.
    """

    def __init__(self, message: str, raw_text: str, messages: tuple[dict[str, Any], ...] = ()) -> None:
        super().__init__(message)
        self.raw_text = raw_text
        self.messages = messages

    def __reduce__(self) -> tuple[type[ActionError], tuple[str, str, tuple[dict[str, Any], ...]]]:
        return type(self), (str(self), self.raw_text, self.messages)


class MissingDependencyError(AsymSpecError, ImportError):
    """An optional package is not installed; the text names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(
            f'{package} is not installed; run: pip install "asymspec-agents[{extra}]"', name=package
        )
        self.package = package
        self.extra = extra

    def __reduce__(self) -> tuple[type[MissingDependencyError], tuple[str, str]]:
        return type(self), (self.package, self.extra)


class ContextOverflowError(AsymSpecError):
    """A view exceeds its limit; `view`, `num_tokens` and `limit` say which, how long, how much is allowed."""

    def __init__(
        self, view: Literal["full", "compressed"], num_tokens: int, limit: int, advice: str = ""
    ) -> None:
        super().__init__(
            f"the {view} view has {num_tokens:,} tokens, {num_tokens - limit:,} over the limit of {limit:,}"
            + (f"; {advice}" if advice else "")
        )
        self.view = view
        self.num_tokens = num_tokens
        self.limit = limit
        self.advice = advice

    def __reduce__(
        self,
    ) -> tuple[type[ContextOverflowError], tuple[Literal["full", "compressed"], int, int, str]]:
        return type(self), (self.view, self.num_tokens, self.limit, self.advice)


class IncompatibleModelsError(AsymSpecError):
    """Verifier and drafter cannot be paired, or a model's cache cannot be rolled back exactly."""


class WeightsError(AsymSpecError):
    """Model files cannot be found, fetched or converted."""


class ChecksumError(WeightsError):
    """Fetched bytes differ from the published checksum; nothing of them is kept."""


class BackendError(AsymSpecError):
    """A backend failed to answer a request."""


class ConnectionFailedError(BackendError):
    """A server cannot be reached, or the connection ended before the answer was whole."""


class ResponseTimeoutError(BackendError):
    """A server sent nothing for longer than the timeout allows."""


class ServerError(BackendError):
    """A server answered with an error; `status` is the HTTP status, `code` the server's own word for it."""

    def __init__(self, message: str, status: int, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code

    def __reduce__(self) -> tuple[type[ServerError], tuple[str, int, str | None]]:
        return type(self), (str(self), self.status, self.code)


class NotAsymSpecError(BackendError):
    """A server does not speak AsymSpec, so a request would be answered without the method."""


class RequestAbortedError(AsymSpecError):
    """The caller aborted the request before it was complete."""
