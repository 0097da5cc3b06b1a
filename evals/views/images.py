"""Parts that have no text of their own, such as images, and the texts that stand for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.protocol import Edit, apply_edits
from asymspec_agents.router import ContextRouter
from asymspec_agents.views.routed import RoutedContext

from ..sample import LongPart

__all__ = ["routed_beside_images", "texts_of"]


def texts_of(long_parts: Sequence[LongPart]) -> tuple[Edit, ...]:
    """What whoever does not see gets: the text of each part that has one, in its place."""
    return tuple(
        Edit(message=part.message, part=part.part, text=part.text)
        for part in long_parts
        if part.text is not None
    )


def routed_beside_images(
    router: ContextRouter,
    messages: tuple[Message, ...],
    tools: tuple[ToolSpec, ...],
    query: str,
    long_parts: Sequence[LongPart],
) -> RoutedContext:
    """Both views by a router: the full one keeps the parts, the compressed one shows their texts."""
    texts = texts_of(long_parts)
    read = router.attachments.read(apply_edits(messages, texts), router.store)
    full = _put_back(read.full, messages, texts)
    return router.route_read(replace(read, full=full), tools, task=query or None)


def _put_back(
    texts: tuple[Message, ...], messages: tuple[Message, ...], edits: Sequence[Edit]
) -> tuple[Message, ...]:
    kept = list(texts)
    for edit in edits:
        shown, given = kept[edit.message].content, messages[edit.message].content
        if edit.part is not None and isinstance(shown, tuple) and isinstance(given, tuple):
            content = (*shown[: edit.part], given[edit.part], *shown[edit.part + 1 :])
            kept[edit.message] = kept[edit.message].model_copy(update={"content": content})
    return tuple(kept)
