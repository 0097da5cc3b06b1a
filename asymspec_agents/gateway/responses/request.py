"""A Responses body as a chat body.

Source: OpenAI API reference, `POST /v1/responses`. The rule for its fields: what chat completions can express
is translated; what changes nothing here is dropped; what cannot be done is refused by name, with the way
out; a field that is none of that API's (`asymspec`, `cache_salt`, `session_id`, `stop`, …) passes as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import ConfigurationError
from .fields import a_list, a_mapping, refuse
from .items import chat_messages
from .tools import chat_tools

__all__ = ["chat_body"]

# Chat has these fields with the same meaning.
SAME = (
    "model",
    "temperature",
    "top_p",
    "parallel_tool_calls",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "service_tier",
)
TRANSLATED = {
    "input",
    "instructions",
    "tools",
    "tool_choice",
    "text",
    "reasoning",
    "max_output_tokens",
    "stream",
}
# Permissions that need not be used, books of the provider's, and limits on tools that do not exist here.
# `store`: nothing is stored, and the answer says so.
WITHOUT_EFFECT = {
    "max_tool_calls",
    "metadata",
    "prompt_cache_options",
    "store",
    "stream_options",
    "truncation",
}
SEND_ALL = "no response is stored here; send the whole conversation in `input`"
REFUSED: Mapping[str, str] = {
    "background": "answers come while the client waits; leave it out",
    "context_management": "views are made by the gateway's own policy; leave it out",
    "conversation": SEND_ALL,
    "moderation": "no moderation is done here; leave it out",
    "n": "one answer to a request; send one request each",
    "previous_response_id": SEND_ALL,
    "prompt": "stored prompts are the provider's; send `instructions` and `input`",
    "top_logprobs": "a Response's log probabilities are not made here; use chat completions",
}
HARMLESS: Mapping[str, tuple[Any, ...]] = {"background": (False,), "n": (1,), "top_logprobs": (0,)}
# Of the first, what is asked for is there in plain: thoughts are not encrypted.
INCLUDES = ("reasoning.encrypted_content", "message.input_image.image_url")


def chat_body(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The chat completion that answers a Responses body, usage asked for.

    Raises ConfigurationError, UnsupportedRequestError or MessageError naming the field.
    """
    for name, why in REFUSED.items():
        value = fields.get(name)
        if value not in (None, [], *HARMLESS.get(name, ())):
            refuse(name, value, why)
    for included in a_list(fields.get("include") or [], "include"):
        if included not in INCLUDES:
            refuse("include", included, "nothing here has it; leave it out")
    own = TRANSLATED | WITHOUT_EFFECT | REFUSED.keys() | {"include", *SAME}
    passed = {name: value for name, value in fields.items() if name not in own}
    for name in ("messages", "max_tokens", "max_completion_tokens", "response_format"):
        if name in passed:
            raise ConfigurationError(f"{name}: a field of chat completions, not of the Responses API")
    body: dict[str, Any] = {**passed, **{name: fields[name] for name in SAME if fields.get(name) is not None}}
    body["messages"] = chat_messages(fields.get("input"), fields.get("instructions"))
    body.update(chat_tools(fields.get("tools"), fields.get("tool_choice")).fields())
    if "tools" not in body:
        body.pop("parallel_tool_calls", None)
    if fields.get("max_output_tokens") is not None:
        body["max_tokens"] = fields["max_output_tokens"]
    body.update(_text(fields.get("text")))
    reasoning = a_mapping(fields.get("reasoning") or {}, "reasoning")
    if reasoning.get("effort") is not None:
        body["reasoning_effort"] = reasoning["effort"]
    if fields.get("stream"):
        if fields["stream"] is not True:
            raise ConfigurationError("stream: must be true or false")
        body.update(stream=True, stream_options={"include_usage": True})
    return body


def _text(given: object) -> dict[str, Any]:
    """Chat's fields for the form of the text."""
    text = a_mapping(given or {}, "text")
    body: dict[str, Any] = {}
    if text.get("verbosity") is not None:
        body["verbosity"] = text["verbosity"]
    form = a_mapping(text.get("format") or {"type": "text"}, "text.format")
    kind = form.get("type")
    if kind == "json_object":
        body["response_format"] = {"type": "json_object"}
    elif kind == "json_schema":
        schema = {
            name: form[name]
            for name in ("name", "description", "schema", "strict")
            if form.get(name) is not None
        }
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    elif kind != "text":
        refuse("text.format.type", kind, "must be text, json_object or json_schema")
    return body
