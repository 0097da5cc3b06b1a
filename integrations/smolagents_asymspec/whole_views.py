"""A routed view back onto smolagents messages: edits of the caller's own, or messages taken out and made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from asymspec_agents.errors import MessageError
from asymspec_agents.messages import Message
from asymspec_agents.protocol import derive_edits
from asymspec_agents.router import RoutedContext

from ._compat import ChatMessage, MessageRole
from .convert import edit_chat_messages

__all__ = ["compressed_chat_messages"]

AnyMessage: TypeAlias = ChatMessage | Mapping[str, Any]


def compressed_chat_messages(
    messages: Sequence[AnyMessage], wire: Sequence[Message], routed: RoutedContext
) -> list[AnyMessage]:
    """The compressed view of `messages`, which `wire` are on the wire; images and fields are the caller's.

    Edits are taken against what was given, not against `routed.full`, which the drafter's limit may cut.
    """
    if routed.messages is None:
        return edit_chat_messages(messages, derive_edits(wire, routed.compressed))
    return [
        _made(message) if source is None else _shown(messages[source], wire[source], message)
        for message, source in zip(routed.messages, routed.sources, strict=True)
    ]


def _shown(given: AnyMessage, wire: Message, shown: Message) -> AnyMessage:
    try:
        return edit_chat_messages([given], derive_edits((wire,), (shown,)))[0]
    except MessageError:  # a summary stands before its own words
        summary, rest = shown.texts()[0], shown
        if not isinstance(shown.content, tuple):
            return _with_content(given, [_text(summary)])
        rest = shown.model_copy(update={"content": shown.content[1:]})
        own = edit_chat_messages([given], derive_edits((wire,), (rest,)))[0]
        content = own["content"] if isinstance(own, Mapping) else own.content
        return _with_content(own, [_text(summary), *content])


def _with_content(message: AnyMessage, content: list[Any]) -> AnyMessage:
    if isinstance(message, Mapping):
        return {**message, "content": content}
    changed: AnyMessage = replace(message, content=content)
    return changed


def _made(message: Message) -> AnyMessage:
    made: AnyMessage = ChatMessage(
        role=MessageRole(message.role), content=[_text(text) for text in message.texts()]
    )
    return made


def _text(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}
