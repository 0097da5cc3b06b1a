"""Tools and tool choice of a Responses body as chat has them. Only function tools are: a client runs them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigurationError, MessageError
from .fields import a_list, a_mapping, a_text, refuse

__all__ = ["ChatTools", "chat_tools"]

OWN = {"type", "name", "description", "parameters", "strict"}
CHOICES = ("none", "auto", "required")


class ChatTools:
    """The chat fields `tools` and `tool_choice`."""

    def __init__(self, tools: list[dict[str, Any]], choice: object) -> None:
        self.tools = tools
        self.choice = choice

    def fields(self) -> dict[str, Any]:
        """Those of both that are there; servers refuse an empty list."""
        fields: dict[str, Any] = {"tools": self.tools} if self.tools else {}
        if self.choice is not None and (self.tools or self.choice not in ("auto", "none")):
            fields["tool_choice"] = self.choice
        return fields


def chat_tools(tools: object, choice: object) -> ChatTools:
    """Both as chat has them. Raises UnsupportedRequestError for tools that a provider runs."""
    made = [
        _tool(a_mapping(tool, f"tools[{index}]"), f"tools[{index}]")
        for index, tool in enumerate(a_list(tools or [], "tools"))
    ]
    if choice is None or choice in CHOICES:
        return ChatTools(made, choice)
    if not isinstance(choice, Mapping):
        raise ConfigurationError(f"tool_choice: must be one of {', '.join(CHOICES)}, or an object")
    kind = choice.get("type")
    if kind == "function":
        name = a_text(choice, "name", "tool_choice")
        return ChatTools(made, {"type": "function", "function": {"name": name}})
    if kind != "allowed_tools":
        refuse("tool_choice.type", kind, "a tool that its provider runs; choose a function tool")
    return _allowed(made, choice)


def _tool(tool: Mapping[str, Any], place: str) -> dict[str, Any]:
    kind = tool.get("type")
    if kind != "function":
        if not isinstance(kind, str):
            raise MessageError(f"{place}.type: must be a string")
        refuse(
            f"{place}.type",
            kind,
            "not a function tool; offer it as a function that the client runs, or use the provider's own API",
        )
    odd = sorted(name for name in tool.keys() - OWN if tool[name] not in (None, False, [], {}))
    if odd:
        refuse(f"{place}.{odd[0]}", tool[odd[0]], "chat completions have no place for it; leave it out")
    function: dict[str, Any] = {"name": a_text(tool, "name", place)}
    for name in ("description", "parameters", "strict"):
        if tool.get(name) is not None:
            function[name] = tool[name]
    return {"type": "function", "function": function}


def _allowed(tools: list[dict[str, Any]], choice: Mapping[str, Any]) -> ChatTools:
    """Only the allowed tools are offered: chat servers know no other way to forbid one."""
    names = {
        a_text(a_mapping(tool, f"tool_choice.tools[{index}]"), "name", f"tool_choice.tools[{index}]")
        for index, tool in enumerate(a_list(choice.get("tools"), "tool_choice.tools"))
    }
    mode = choice.get("mode")
    if mode not in ("auto", "required"):
        raise ConfigurationError("tool_choice.mode: must be 'auto' or 'required'")
    unknown = sorted(names - {tool["function"]["name"] for tool in tools})
    if unknown:
        raise ConfigurationError(f"tool_choice.tools: {unknown[0][:80]!r} is not among the tools")
    return ChatTools([tool for tool in tools if tool["function"]["name"] in names], mode)
