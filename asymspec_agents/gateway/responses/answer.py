"""A whole chat completion as a Response."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import BackendError
from ...wire.reading import CallPieces, choice_of, reasoning_of
from .response import (
    ItemStatus,
    call_item,
    ending_of,
    message_item,
    new_id,
    reasoning_item,
    refusal_part,
    text_part,
    usage_of,
)

__all__ = ["response_of", "text_of"]


def response_of(head: Mapping[str, Any], completion: Mapping[str, Any]) -> dict[str, Any]:
    """The finished Response. Raises BackendError for what is no chat completion."""
    choice = choice_of(completion)
    message = None if choice is None else choice.get("message")
    if choice is None or not isinstance(message, Mapping):
        raise BackendError("the upstream's answer has no message")
    ending = ending_of(choice.get("finish_reason"))
    status: ItemStatus = "completed" if ending["status"] == "completed" else "incomplete"
    response = {
        **head,
        **ending,
        "model": model if isinstance(model := completion.get("model"), str) else head["model"],
        "output": _items(message, status),
        "usage": usage_of(completion.get("usage")),
    }
    if "asymspec" in completion:
        response["asymspec"] = completion["asymspec"]
    return response


def _items(message: Mapping[str, Any], status: ItemStatus) -> list[dict[str, Any]]:
    items = []
    reasoning = reasoning_of(message)
    if reasoning:
        items.append(reasoning_item(new_id("rs"), reasoning, "completed"))
    pieces = CallPieces()
    pieces.add(message)
    parts = [text_part(text)] if (text := text_of(message)) else []
    refusal = message.get("refusal")
    if isinstance(refusal, str) and refusal:
        parts.append(refusal_part(refusal))
    if parts or not pieces.calls:
        items.append(message_item(new_id("msg"), parts or [text_part("")], status))
    for parts_of_call in pieces.calls:
        call = parts_of_call.whole()
        function = call.function
        if function is not None:
            identity = call.id or new_id("call")
            items.append(call_item(new_id("fc"), identity, function.name, function.arguments, status))
    return items


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a message or delta: a string, or the text parts of a list."""
    content = message.get("content")
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, Mapping)]
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""
