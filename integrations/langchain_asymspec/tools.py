"""How a call must use its tools: LangChain's and other providers' ways of saying it, in OpenAI's form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import ToolSpec

__all__ = ["wire_tool_choice"]

_WORDS: Mapping[str | None, str] = {"any": "required", "required": "required", "auto": "auto", "none": "none"}


def wire_tool_choice(choice: object, tools: Sequence[ToolSpec]) -> str | Mapping[str, Any] | None:
    """The choice in OpenAI's form; None where nothing was chosen, or there are no tools to choose from.

    Takes "any", "required", "auto", "none", True (any), False and None, a tool's name, and the dicts of
    OpenAI and Anthropic. Raises ConfigurationError for a forced call without tools, or of an unknown tool.
    """
    if choice is None or choice is False:
        return None
    if choice is True:
        choice = "any"
    named, word = _named(choice), _WORDS.get(_kind(choice))
    if word in ("auto", "none") and not tools:
        return None  # servers refuse a choice without tools
    if not tools:
        raise ConfigurationError(f"tool_choice={choice!r}: there are no tools to call")
    if named is None and word is not None:
        return word
    if named is None:
        if not isinstance(choice, Mapping):
            raise ConfigurationError(f"tool_choice={choice!r} must be a name, a dict, True, False or None")
        return choice  # a form of the server's own
    names = [tool.function.name for tool in tools if tool.function is not None]
    if named not in names:
        raise ConfigurationError(f"tool_choice={named!r} is none of the tools: {', '.join(names)}")
    return {"type": "function", "function": {"name": named}}


def _kind(choice: object) -> str | None:
    """The word of a choice: itself, or a dict's `type`."""
    kind = choice.get("type") if isinstance(choice, Mapping) else choice
    return kind if isinstance(kind, str) else None


def _named(choice: object) -> str | None:
    """The tool a choice names, whichever provider's form it has."""
    if isinstance(choice, str):
        return None if choice in _WORDS else choice
    if not isinstance(choice, Mapping):
        return None
    function = choice.get("function")
    name = function.get("name") if isinstance(function, Mapping) else choice.get("name")
    return name if isinstance(name, str) else None
