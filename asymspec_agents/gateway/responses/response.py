"""The Response object: what a body asked for, and the items of the answer.

Source: OpenAI API reference, the Response object and its output items.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ...errors import BackendError

__all__ = [
    "ItemStatus",
    "call_item",
    "ending_of",
    "message_item",
    "new_id",
    "reasoning_item",
    "refusal_part",
    "response_head",
    "text_part",
    "usage_of",
]

ItemStatus = Literal["in_progress", "completed", "incomplete"]
COMPLETE = ("stop", "tool_calls", "function_call", "eos_token")
ECHOED = (
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "prompt_cache_key",
    "safety_identifier",
    "temperature",
    "top_p",
    "user",
)


def new_id(kind: str) -> str:
    """A fresh id of an object: `resp`, `msg`, `fc`, `rs`."""
    return f"{kind}_{uuid.uuid4().hex}"


def response_head(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A Response that was just begun; what was asked for is said again, and that nothing is stored."""
    text = fields.get("text")
    reasoning = fields.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "background": False,
        "completed_at": None,
        "error": None,
        "incomplete_details": None,
        **{name: fields.get(name) for name in ECHOED},
        "metadata": fields.get("metadata") or {},
        "model": fields.get("model"),
        "output": [],
        "parallel_tool_calls": fields.get("parallel_tool_calls") is not False,
        "previous_response_id": None,
        "reasoning": {"effort": effort, "summary": None},
        "service_tier": "default",
        "store": False,
        "text": {"format": {"type": "text"}, **(text if isinstance(text, Mapping) else {})},
        "tool_choice": fields.get("tool_choice") or "auto",
        "tools": fields.get("tools") or [],
        "top_logprobs": 0,
        "truncation": "disabled",
        "usage": None,
    }


def text_part(text: str) -> dict[str, Any]:
    """A message's text."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def refusal_part(refusal: str) -> dict[str, Any]:
    """A message that refuses."""
    return {"type": "refusal", "refusal": refusal}


def message_item(identity: str, parts: Sequence[Mapping[str, Any]], status: ItemStatus) -> dict[str, Any]:
    """The model's message."""
    return {
        "id": identity,
        "type": "message",
        "status": status,
        "role": "assistant",
        "content": list(parts),
    }


def reasoning_item(identity: str, text: str | None, status: ItemStatus) -> dict[str, Any]:
    """What the model thought, in plain."""
    content = [] if text is None else [{"type": "reasoning_text", "text": text}]
    return {"id": identity, "type": "reasoning", "status": status, "summary": [], "content": content}


def call_item(identity: str, call_id: str, name: str, arguments: str, status: ItemStatus) -> dict[str, Any]:
    """A call of a function; `call_id` is what its output must name."""
    return {
        "id": identity,
        "type": "function_call",
        "status": status,
        "call_id": call_id,
        "name": name,
        "arguments": arguments,
    }


def ending_of(finish_reason: object) -> dict[str, Any]:
    """Status and details of a Response whose chat answer ended so. Raises BackendError for what is no end."""
    if finish_reason in COMPLETE:
        return {"status": "completed", "completed_at": int(time.time()), "incomplete_details": None}
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    if not isinstance(finish_reason, str) or finish_reason not in reasons:
        raise BackendError(f"the upstream ended its answer with finish_reason={finish_reason!r}")
    return {"status": "incomplete", "incomplete_details": {"reason": reasons[finish_reason]}}


def usage_of(usage: object) -> dict[str, Any] | None:
    """Chat's usage in the Responses API's words; None where the upstream did not tell."""
    if not isinstance(usage, Mapping):
        return None
    read, written = _count(usage, "prompt_tokens"), _count(usage, "completion_tokens")
    cached = _count(usage.get("prompt_tokens_details"), "cached_tokens")
    thought = _count(usage.get("completion_tokens_details"), "reasoning_tokens")
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": _count(usage, "total_tokens") or read + written,
    }


def _count(fields: object, name: str) -> int:
    value = fields.get(name) if isinstance(fields, Mapping) else None
    return value if isinstance(value, int) and value >= 0 else 0
