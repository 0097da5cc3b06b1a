"""The only module that touches what may change between versions of langchain-core.

Stable public names (messages, callbacks, outputs) are imported where they are used; what is beta or young is
imported from here. Written against langchain-core 1.8.3 and, on Python 3.10, 1.7.7. The middleware's
needs of langchain have their own module, as a model alone does without it.
"""

from __future__ import annotations

import re

from asymspec_agents.errors import ConfigurationError, MissingDependencyError

__all__ = [
    "ContextOverflowError",
    "LangSmithParams",
    "ModelAPIError",
    "ModelAuthenticationError",
    "ModelConnectionError",
    "ModelError",
    "ModelInvalidRequestError",
    "ModelNotFoundError",
    "ModelPermissionDeniedError",
    "ModelProfile",
    "ModelRateLimitError",
    "ModelTimeoutError",
    "check_version",
]

_NEEDED = ">=1.7.5,<2"


def check_version(version: str) -> None:
    """Raises ConfigurationError unless this langchain-core version is one the package was written for."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if match is None or not (1, 7, 5) <= tuple(int(part or 0) for part in match.groups()) < (2, 0):
        raise ConfigurationError(
            f"langchain-core={version!r} is not supported; needed: langchain-core{_NEEDED}"
        )


try:
    import langchain_core
except ModuleNotFoundError as error:
    if error.name != "langchain_core":
        raise
    raise MissingDependencyError("langchain_core", "langchain") from error

check_version(langchain_core.__version__)

from langchain_core.exceptions import (  # noqa: E402 - the version fits
    ContextOverflowError,
    ModelAPIError,
    ModelAuthenticationError,
    ModelConnectionError,
    ModelError,
    ModelInvalidRequestError,
    ModelNotFoundError,
    ModelPermissionDeniedError,
    ModelRateLimitError,
    ModelTimeoutError,
)
from langchain_core.language_models import ModelProfile  # noqa: E402
from langchain_core.language_models.base import LangSmithParams  # noqa: E402
