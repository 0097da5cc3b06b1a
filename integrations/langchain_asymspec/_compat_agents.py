"""The only module that touches what may change between versions of langchain and langgraph.

The middleware needs it and a model alone does not. Written against langchain 1.5.2 (1.4.10 on
Python 3.10) and langgraph 1.2.24.
"""

from __future__ import annotations

import re

from asymspec_agents.errors import ConfigurationError, MissingDependencyError

__all__ = [
    "AgentMiddleware",
    "AutoStrategy",
    "Command",
    "ModelRequest",
    "ProviderStrategy",
    "ToolStrategy",
    "check_version",
]

_NEEDED = ">=1.4.10,<2"


def check_version(version: str) -> None:
    """Raises ConfigurationError unless this langchain version is one the package was written for."""
    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if match is None or not (1, 4, 10) <= tuple(int(part or 0) for part in match.groups()) < (2, 0):
        raise ConfigurationError(f"langchain={version!r} is not supported; needed: langchain{_NEEDED}")


try:
    import langchain
except ModuleNotFoundError as error:
    if error.name != "langchain":
        raise
    raise MissingDependencyError("langchain", "langchain-agents") from error

check_version(langchain.__version__)

from langchain.agents.middleware.types import AgentMiddleware, ModelRequest  # noqa: E402 - the version fits
from langchain.agents.structured_output import AutoStrategy, ProviderStrategy, ToolStrategy  # noqa: E402
from langgraph.types import Command  # noqa: E402
