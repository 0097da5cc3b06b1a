"""Consecutive messages of one role as one message, in both views at once.

Many chat templates refuse two messages of one role in a row, and smolagents' own merging fails on string
contents. Merging comes after routing: a router has to see which text is a tool's output and which the user's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from asymspec_agents.messages import ContentPart, Message
from asymspec_agents.protocol import Edit

__all__ = ["MergedViews", "merge_views"]


@dataclass(frozen=True, slots=True)
class MergedViews:
    """The full view as it is sent, and the edits that make the compressed view of it."""

    full: tuple[Message, ...]
    edits: tuple[Edit, ...]


@dataclass(frozen=True, slots=True)
class _Piece:
    """One part of a message, and its text in the compressed view where that differs."""

    part: ContentPart
    edited: str | None

    @property
    def is_plain_text(self) -> bool:
        return self.part.type == "text" and self.part.text is not None and not self.part.model_extra


def merge_views(full: Sequence[Message], edits: Sequence[Edit]) -> MergedViews:
    """Both views with neighbours of one role merged and adjacent texts joined by a line break.

    Text alone becomes a string content, as every chat template takes it. A message with more than role and
    content (tool calls, a call id, a name) stays alone. A message that carries nothing is left out.
    """
    by_message: dict[int, dict[int | None, str]] = {}
    for edit in edits:
        by_message.setdefault(edit.message, {})[edit.part] = edit.text
    merged: list[Message] = []
    new_edits: list[Edit] = []
    for group in _groups(full):
        index = len(merged)
        message = full[group[0]]
        if not _is_mergeable(message) or (len(group) == 1 and isinstance(message.content, str)):
            merged.append(message)
            texts = by_message.get(group[0], {})
            new_edits += [Edit(message=index, part=part, text=text) for part, text in texts.items()]
            continue
        pieces = [piece for at in group for piece in _pieces(full[at], by_message.get(at, {}))]
        parts: list[ContentPart] = []
        edited: dict[int, str] = {}
        for part, text in _joined(pieces):
            if text is not None:
                edited[len(parts)] = text
            parts.append(part)
        if len(parts) == 1 and parts[0].type == "text" and not parts[0].model_extra:
            merged.append(Message(role=message.role, content=parts[0].text))
            new_edits += [Edit(message=index, text=text) for text in edited.values()]
        elif parts:
            merged.append(Message(role=message.role, content=tuple(parts)))
            new_edits += [Edit(message=index, part=part, text=text) for part, text in edited.items()]
    return MergedViews(tuple(merged), tuple(new_edits))


def _groups(messages: Sequence[Message]) -> Iterator[list[int]]:
    def key(index: int) -> tuple[str, int]:
        message = messages[index]
        return (message.role, -1) if _is_mergeable(message) else (message.role, index)

    kept = [at for at, message in enumerate(messages) if not _is_mergeable(message) or message.content]
    for _, group in groupby(kept, key):
        yield list(group)


def _is_mergeable(message: Message) -> bool:
    return (
        not message.tool_calls
        and message.name is None
        and message.tool_call_id is None
        and not message.model_extra
    )


def _pieces(message: Message, texts: Mapping[int | None, str]) -> list[_Piece]:
    if isinstance(message.content, str):
        return [_Piece(ContentPart(type="text", text=message.content), texts.get(None))]
    return [_Piece(part, texts.get(number)) for number, part in enumerate(message.content or ())]


def _joined(pieces: Sequence[_Piece]) -> Iterator[tuple[ContentPart, str | None]]:
    """The parts with runs of plain texts joined, each with its compressed text where that differs."""
    for is_text, group in groupby(pieces, lambda piece: piece.is_plain_text):
        run = list(group)
        if not is_text:
            yield from ((piece.part, piece.edited) for piece in run)
            continue
        said = [piece for piece in run if piece.part.text] or run[:1]
        full = "\n".join(piece.part.text or "" for piece in said)
        edited = None
        if any(piece.edited is not None for piece in said):
            edited = "\n".join(
                piece.edited if piece.edited is not None else piece.part.text or "" for piece in said
            )
        yield ContentPart(type="text", text=full), edited
