"""smolagents messages as wire messages, and edits back onto smolagents messages.

Invariants:
- One wire message per smolagents message, in order, so an edit's message index means the same in both.
- Nothing of the caller is changed or copied deeply; unknown part types and fields stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ValidationError

from asymspec_agents.errors import MessageError
from asymspec_agents.messages import ContentPart, Message, deepest, parse_messages
from asymspec_agents.protocol import Edit

from ._compat import ChatMessage, MessageRole
from .images import ConversationImages
from .outputs import split_outputs

__all__ = ["edit_chat_messages", "to_wire"]

_WIRE_ROLES = {
    MessageRole.TOOL_CALL.value: MessageRole.ASSISTANT.value,
    MessageRole.TOOL_RESPONSE.value: MessageRole.USER.value,
}


def to_wire(
    messages: Sequence[ChatMessage | Mapping[str, Any]], images: ConversationImages | None
) -> tuple[Message, ...]:
    """The messages on the wire. Without `images`, an image stands as a part without its data.

    Raises MessageError naming the message that is malformed.
    """
    if isinstance(messages, str | Mapping | ChatMessage):
        raise MessageError(f"messages must be a list, not {type(messages).__name__}")
    return parse_messages([_wire(message, index, images) for index, message in enumerate(messages)])


def _wire(
    message: ChatMessage | Mapping[str, Any], index: int, images: ConversationImages | None
) -> Mapping[str, Any]:
    fields = _fields(message, index)
    role = fields.get("role")
    if isinstance(role, MessageRole):
        role = role.value
    if not isinstance(role, str):
        raise MessageError(f"messages[{index}].role must be a string, not {type(role).__name__}")
    wire = {**fields, "role": _WIRE_ROLES.get(role, role)}
    content = fields.get("content")
    if content is not None and not isinstance(content, str):
        content = _only_text(content)
    if isinstance(content, str) and split_outputs(content) == (content,):
        wire["content"] = content
    elif content is not None:
        parts = [part for parts in _parts(content, index, images) for part in parts]
        only = parts[0] if len(parts) == 1 else None
        wire["content"] = only.text if only is not None and _is_plain(only) else tuple(parts)
    return wire


def _only_text(content: object) -> object:
    """The text of a content that is a single text element, as nearly all are; any other content itself."""
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):
        element = content[0]
        if element.keys() == {"type", "text"} and element["type"] == "text":
            return element["text"] if isinstance(element["text"], str) else content
    return content


def _fields(message: ChatMessage | Mapping[str, Any], index: int) -> Mapping[str, Any]:
    if isinstance(message, Mapping):
        return message
    if not hasattr(message, "role"):
        raise MessageError(f"messages[{index}] must be a ChatMessage or a dict, not {type(message).__name__}")
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        fields["tool_calls"] = [
            {
                "id": call.id,
                "type": call.type,
                "function": {"name": call.function.name, "arguments": call.function.arguments},
            }
            for call in message.tool_calls
        ]
    return fields


def _parts(content: object, index: int, images: ConversationImages | None) -> list[tuple[ContentPart, ...]]:
    """The wire parts of each element of a content; a string is one element."""
    if isinstance(content, str):
        return [_text_parts(content)]
    if not isinstance(content, list | tuple):
        raise MessageError(
            f"messages[{index}].content must be a string or a list, not {type(content).__name__}"
        )
    return [
        _element_parts(element, f"messages[{index}].content[{at}]", images)
        for at, element in enumerate(content)
    ]


def _element_parts(element: object, place: str, images: ConversationImages | None) -> tuple[ContentPart, ...]:
    if isinstance(element, str):
        return _text_parts(element)
    if not isinstance(element, Mapping) or not isinstance(element.get("type"), str):
        raise MessageError(f"{place} must be a string or a dict with a type")
    kind = element["type"]
    if kind == "text" and set(element) == {"type", "text"} and isinstance(element["text"], str):
        return _text_parts(element["text"])
    if kind in ("image", "image_url"):
        return images.parts(element) if images is not None else (ContentPart(type=kind),)
    try:
        return (ContentPart.model_validate(element),)
    except ValidationError as error:
        raise MessageError(f"{place}: {deepest(error)['msg']}") from error


def _text_parts(text: str) -> tuple[ContentPart, ...]:
    return tuple(ContentPart(type="text", text=piece) for piece in split_outputs(text))


def _is_plain(part: ContentPart) -> bool:
    return part.type == "text" and part.text is not None and not part.model_extra


def edit_chat_messages(
    messages: Sequence[ChatMessage | Mapping[str, Any]], edits: Sequence[Edit]
) -> list[ChatMessage | Mapping[str, Any]]:
    """The messages with edits of `to_wire(messages, None)` applied; untouched ones are the same objects."""
    edited = list(messages)
    texts: dict[int, dict[int, str]] = {}
    for edit in edits:
        texts.setdefault(edit.message, {})[edit.part or 0] = edit.text
    for index, new in texts.items():
        message = messages[index]
        content = _edited(_fields(message, index)["content"], index, new)
        edited[index] = (
            {**message, "content": content}
            if isinstance(message, Mapping)
            else replace(message, content=content)
        )
    return edited


def _edited(content: str | Sequence[Any], index: int, new: Mapping[int, str]) -> str | list[Any]:
    elements = [content] if isinstance(content, str) else list(content)
    at = 0
    for number, parts in enumerate(_parts(content, index, None)):
        places = range(at, at + len(parts))
        at += len(parts)
        if not any(place in new for place in places):
            continue
        text = "\n".join(new.get(place, part.text or "") for place, part in zip(places, parts, strict=True))
        element = elements[number]
        if isinstance(element, str):
            elements[number] = text
        elif element["type"] == "text":
            elements[number] = {**element, "text": text}
        else:
            elements[number] = {"type": "text", "text": text}
    return elements[0] if isinstance(content, str) else elements
