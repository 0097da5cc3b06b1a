"""Both views of a call side by side, for looking at: the texts in which they differ."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from asymspec_agents.backends import ChatRequest
from asymspec_agents.messages import Message, ToolSpec

__all__ = ["MAX_CHARS", "shown_views"]

MAX_CHARS = 200_000  # of all texts of one call together


def shown_views(request: ChatRequest) -> tuple[dict[str, Any], ...]:
    """A dict for each text that the views do not share, full text and what took its place, in their order.

    Keys: `place` (such as `messages[1].content`), `role`, `full`, `compressed`, and `is_cut` where the texts
    exceed `MAX_CHARS` together and their ends are left out.
    """
    asymspec = request.asymspec
    if asymspec is None:
        return ()
    pairs: list[dict[str, Any]] = []
    if asymspec.messages is not None:
        pairs.append(
            {
                "place": "messages",
                "role": "",
                "full": _conversation(request.messages),
                "compressed": _conversation(asymspec.messages),
            }
        )
    for edit in asymspec.edits or ():
        message = request.messages[edit.message]
        place = f"messages[{edit.message}].content" + ("" if edit.part is None else f"[{edit.part}]")
        pairs.append(
            {
                "place": place,
                "role": message.role,
                "full": _text(message, edit.part),
                "compressed": edit.text,
            }
        )
    if asymspec.tools is not None and asymspec.tools != request.tools:
        pairs.append(
            {
                "place": "tools",
                "role": "",
                "full": _tools(request.tools),
                "compressed": _tools(asymspec.tools),
            }
        )
    return tuple(_within(pairs))


def _within(pairs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The pairs with as much of each text as fits; the compressed ones, which are short, first."""
    room = MAX_CHARS
    for side in ("compressed", "full"):
        for pair in pairs:
            text = pair[side]
            if len(text) > room:
                pair[side] = f"{text[:room]}\n[{len(text) - room:,} more characters]"
                pair["is_cut"] = True
            room = max(0, room - len(text))
    return pairs


def _text(message: Message, part: int | None) -> str:
    if isinstance(message.content, str):
        return message.content
    content = () if message.content is None else message.content
    if part is None or part >= len(content):
        return ""
    text = content[part].text
    return f"[{content[part].type}]" if text is None else text


def _conversation(messages: Sequence[Message]) -> str:
    return "\n\n".join(f"{message.role}:\n" + "\n".join(message.texts()) for message in messages)


def _tools(tools: Sequence[ToolSpec]) -> str:
    return json.dumps([tool.wire() for tool in tools], indent=1, ensure_ascii=False, default=str)
