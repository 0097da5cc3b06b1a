"""From a model's own settings and a call's keyword arguments to the fields of a ChatRequest.

A call's arguments outrank the model's, one by one; so do the fields of `extra_body`. What is not known
here is passed on to the server as a field of the request.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asymspec_agents.backends import ChatRequest
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecRequest
from asymspec_agents.router import RoutedContext

from .convert import wire_tools
from .tools import wire_tool_choice

__all__ = ["Call", "options_of", "parameters_of", "stop_strings"]

_FIELDS = frozenset(
    {
        "max_tokens",
        "stop",
        "temperature",
        "top_p",
        "seed",
        "tools",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "chat_template_kwargs",
        "cache_salt",
        "session_id",
        "request_id",
    }
)
_ALIASES = {"max_completion_tokens": "max_tokens", "stop_sequences": "stop"}
# Settled before a request is made: which model, how to decode, in which form to answer.
_SETTLED = frozenset({"model", "asymspec", "extra_body", "stream", "strict"})
# The views and the way they travel are the router's and the backend's.
_RESERVED = frozenset({"messages", "prompt", "stream_options"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call before it is routed: the full view, and everything else that is asked."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    options: AsymSpecOptions | None
    parameters: Mapping[str, Any]

    def request(self, routed: RoutedContext | None) -> ChatRequest:
        """The request with both views; where routing failed (None), both are the full one."""
        if routed is not None:
            return ChatRequest(
                messages=routed.full,
                tools=routed.tools,
                asymspec=routed.request(self.options),
                **self.parameters,
            )
        fields = set(AsymSpecOptions.model_fields)
        given = self.options.model_dump(exclude_unset=True, include=fields) if self.options else {}
        return ChatRequest(
            messages=self.messages,
            tools=self.tools,
            asymspec=AsymSpecRequest(**given, edits=()),
            **self.parameters,
        )


def parameters_of(own: Mapping[str, Any], called: Mapping[str, Any]) -> dict[str, Any]:
    """A ChatRequest's keyword arguments, messages and `asymspec` aside; `tools` are ToolSpecs.

    Raises ConfigurationError for an argument that cannot be passed on.
    """
    merged: dict[str, Any] = {}
    for layer in (own, called):
        body: Any = layer.get("extra_body") or {}
        if not isinstance(body, Mapping):
            raise ConfigurationError(f"extra_body must be a mapping, not {type(body).__name__}")
        for refused in sorted(_SETTLED & body.keys() | _RESERVED & (body.keys() | layer.keys())):
            raise ConfigurationError(f"{refused} cannot be passed as a field of the request")
        for given in (body, layer):
            for name, value in given.items():
                if name not in _SETTLED and value is not None:
                    merged[_ALIASES.get(name, name)] = value
    fields = {name: value for name, value in merged.items() if name in _FIELDS}
    fields["stop"] = stop_strings(fields.get("stop"))
    tools = wire_tools(fields.pop("tools", ()))
    choice = wire_tool_choice(fields.pop("tool_choice", None), tools)
    if choice is not None:
        fields["tool_choice"] = choice
    if not tools:
        fields.pop("parallel_tool_calls", None)  # as servers refuse it without tools
    extra = {name: value for name, value in merged.items() if name not in _FIELDS}
    return {**fields, "tools": tools, "extra": extra}


def options_of(given: object) -> AsymSpecOptions | None:
    """The options as an object. Raises ConfigurationError naming what is wrong with them."""
    if given is None or isinstance(given, AsymSpecOptions):
        return given
    if isinstance(given, Mapping):
        return AsymSpecOptions.of(**given)
    raise ConfigurationError(f"asymspec must be AsymSpecOptions or a mapping, not {type(given).__name__}")


def stop_strings(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """The stop strings as a tuple, without empty ones (which would stop everywhere)."""
    strings = (stop,) if isinstance(stop, str) else tuple(stop or ())
    return tuple(string for string in strings if string)
