"""From smolagents' keyword arguments to the fields of a ChatRequest, in smolagents' order of priority.

Highest first: what the model was constructed with, what the call passes by keyword, the specific parameters
(stop_sequences, response_format, tools). REMOVE_PARAMETER at construction takes a parameter out. Unlike
smolagents' own models these send no `tool_choice` of their own: forcing a call takes a grammar, which not
every backend has; pass `tool_choice="required"` for one that has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from asymspec_agents.errors import ConfigurationError

from ._compat import REMOVE_PARAMETER, tool_schema

__all__ = ["answer_limit", "check_parameters", "request_parameters", "stop_strings"]

_FIELDS = frozenset(
    {
        "tools",
        "max_tokens",
        "stop",
        "temperature",
        "top_p",
        "seed",
        "tool_choice",
        "parallel_tool_calls",
        "response_format",
        "chat_template_kwargs",
        "cache_salt",
        "session_id",
        "request_id",
    }
)
_MAX_TOKENS_ALIASES = ("max_completion_tokens", "max_new_tokens")
# smolagents' own switches for how its models prepare messages; there is nothing left for them to switch here.
_SWITCHES = frozenset({"flatten_messages_as_text", "convert_images_to_image_urls"})
# The views, the method and the model are this model's, its router's and its backend's: passed here they would
# be lost or sent twice.
_RESERVED = frozenset({"messages", "prompt", "asymspec", "model", "stream", "stream_options"})


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Raises ConfigurationError for a parameter that cannot be passed on, or a bad max_tokens."""
    for name in (*parameters, *_extra_body(parameters)):
        if name in _RESERVED:
            raise ConfigurationError(f"{name} cannot be passed as a parameter of the request")
    for name in ("max_tokens", *_MAX_TOKENS_ALIASES):
        value = parameters.get(name)
        is_removed = value is None or value is REMOVE_PARAMETER
        if not is_removed and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
            raise ConfigurationError(f"{name}={value!r} must be an integer of at least 1")


def answer_limit(parameters: Mapping[str, Any]) -> int | None:
    """The answer's longest length in tokens that these parameters set, by whichever of its names."""
    values = (parameters.get(name) for name in ("max_tokens", *_MAX_TOKENS_ALIASES))
    return next((value for value in values if isinstance(value, int)), None)


def request_parameters(
    constructed: Mapping[str, Any],
    called: Mapping[str, Any],
    *,
    stop_sequences: Sequence[str] | None,
    response_format: Mapping[str, Any] | None,
    tools_to_call_from: Sequence[Any] | None,
) -> dict[str, Any]:
    """A ChatRequest's keyword arguments, messages aside; `tools` are wire dicts, unknown ones `extra`."""
    check_parameters(called)
    merged: dict[str, Any] = {}
    if stop_sequences is not None:
        merged["stop"] = stop_sequences
    if response_format is not None:
        merged["response_format"] = response_format
    if tools_to_call_from:
        merged["tools"] = [tool_schema(tool) for tool in tools_to_call_from]
    for layer in (called, constructed):
        flat = {**_extra_body(layer), **{key: value for key, value in layer.items() if key != "extra_body"}}
        for key, value in flat.items():
            key = "max_tokens" if key in _MAX_TOKENS_ALIASES and key not in _FIELDS else key
            if value is REMOVE_PARAMETER:
                merged.pop(key, None)
            elif key not in _SWITCHES:
                merged[key] = value
    fields = {key: value for key, value in merged.items() if key in _FIELDS and value is not None}
    fields["stop"] = stop_strings(fields.get("stop"))
    if not fields.get("tools"):
        fields.pop("tools", None)
        fields.pop("tool_choice", None)  # servers refuse a choice without tools
        fields.pop("parallel_tool_calls", None)
    return {**fields, "extra": {key: value for key, value in merged.items() if key not in _FIELDS}}


def stop_strings(stop: str | Sequence[str] | None) -> tuple[str, ...]:
    """The stop strings as a tuple, without empty ones (which would stop everywhere)."""
    strings = (stop,) if isinstance(stop, str) else tuple(stop or ())
    return tuple(string for string in strings if string)


def _extra_body(parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    body = parameters.get("extra_body")
    return body if isinstance(body, Mapping) else {}
