"""LangChain content blocks as wire content parts, each with the place in the message that it came from.

Known are LangChain's standard blocks (v0 and v1) and those of OpenAI, Anthropic, Bedrock and VertexAI. What
repeats a message's `tool_calls` or holds reasoning is no content on the wire. Blocks of unknown types pass as
they are.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import convert_to_openai_messages
from pydantic import ValidationError

from asymspec_agents.errors import MessageError
from asymspec_agents.messages import ContentPart, deepest

__all__ = [
    "Path",
    "PlacedPart",
    "as_json",
    "placed_part",
    "placed_parts",
    "plain_content",
    "replaced_at",
    "unwrapped",
]

Path = tuple[str | int, ...]  # keys from a message's content to one text or block; () is a whole string

# A message's `tool_calls`, `invalid_tool_calls` and reasoning travel in fields of their own.
_NO_CONTENT = frozenset(
    {
        "tool_call",
        "tool_call_chunk",
        "invalid_tool_call",
        "tool_use",
        "function_call",
        "reasoning",
        "reasoning_content",
        "thinking",
        "redacted_thinking",
    }
)
# Blocks that LangChain's own converter knows how to write as OpenAI parts.
_CONVERTED = frozenset({"image", "audio", "file", "image_url", "media", "input_audio"})
_FILENAME = "file"  # a server may insist on one


@dataclass(frozen=True, slots=True)
class PlacedPart:
    """A wire part, and where in its message's content it came from."""

    part: ContentPart
    path: Path


def placed_parts(content: object, place: str, at: Path = ()) -> list[PlacedPart]:
    """The wire parts of a content (a string or a list of blocks); raises MessageError naming the block."""
    if isinstance(content, str):
        return [_text(content, at)]
    if not isinstance(content, Sequence):
        raise MessageError(f"{place} must be a string or a list, not {type(content).__name__}")
    found = (placed_part(block, f"{place}[{number}]", (*at, number)) for number, block in enumerate(content))
    return [part for part in found if part is not None]


def placed_part(given: object, place: str, path: Path) -> PlacedPart | None:
    """The wire part of one block; None where it is no content. Raises MessageError naming the block."""
    block = unwrapped(given)
    if isinstance(block, str):
        return _text(block, path)
    if not isinstance(block, Mapping):
        raise MessageError(f"{place} must be a string or a dict, not {type(block).__name__}")
    kind = block.get("type")
    if kind in _NO_CONTENT:
        return None
    text = _text_of(kind, block, place)
    if text is not None:
        return _text(text, path)
    if kind in ("text", "text-plain"):
        raise MessageError(f"{place}.text is missing")
    return PlacedPart(_other_part(kind, block, place), path)


def plain_content(placed: Sequence[PlacedPart]) -> str | tuple[ContentPart, ...]:
    """A wire content: a single text as a string, as nearly every server and template takes it."""
    if len(placed) == 1 and placed[0].part.type == "text" and placed[0].part.text is not None:
        return placed[0].part.text
    return tuple(item.part for item in placed) or ""


def as_json(value: object, place: str) -> str:
    """The value as JSON; raises MessageError naming the place where it is none."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise MessageError(f"{place} cannot be written as JSON ({type(error).__name__})") from error


def unwrapped(block: object) -> object:
    """A provider's own block without the `non_standard` one around it."""
    if isinstance(block, Mapping) and block.get("type") == "non_standard":
        return block.get("value", block)
    return block


def replaced_at(content: Any, path: Path, text: str) -> Any:
    """The content with the text or block at `path` replaced by text; what is not on the way is shared."""
    if not path:
        if isinstance(content, Mapping):
            if content.get("type") == "text" and isinstance(content.get("text"), str):
                return {**content, "text": text}
            return {"type": "text", "text": text}
        return text
    key, rest = path[0], path[1:]
    inner = replaced_at(content[key], rest, text)
    if isinstance(content, Mapping):
        return {**content, key: inner}
    return [*content[:key], inner, *content[key + 1 :]]  # type: ignore[operator]  # an index into a list


def _text(text: str, path: Path) -> PlacedPart:
    return PlacedPart(ContentPart(type="text", text=text), path)


def _text_of(kind: object, block: Mapping[str, Any], place: str) -> str | None:
    """The text of a block that is nothing else."""
    if kind in ("text", "text-plain", "input_text", "output_text") or (kind is None and "text" in block):
        text = block.get("text")
        return text if isinstance(text, str) else None
    if kind == "json" or (kind is None and "json" in block):
        return as_json(block.get("json"), f"{place}.json")
    return None


def _other_part(kind: object, block: Mapping[str, Any], place: str) -> ContentPart:
    wire = dict(block)
    if kind == "input_image" and isinstance(block.get("image_url"), str):
        wire = {"type": "image_url", "image_url": {"url": block["image_url"]}}
    elif kind == "video" and isinstance(block.get("url"), str):
        wire = {"type": "video_url", "video_url": {"url": block["url"]}}
    elif kind == "image_url" and isinstance(block.get("image_url"), str):
        wire = {"type": "image_url", "image_url": {"url": block["image_url"]}}
    elif kind in _CONVERTED or (kind is None and "image" in block):
        wire = _converted(kind, block)
    if not isinstance(wire.get("type"), str):
        raise MessageError(f"{place}.type is missing")
    try:
        return ContentPart.model_validate(wire)
    except ValidationError as error:
        raise MessageError(f"{place}: {deepest(error)['msg']}") from error


def _converted(kind: object, block: Mapping[str, Any]) -> dict[str, Any]:
    """LangChain's own conversion; what it refuses stays as it is, for the router's attachments know more."""
    named = dict(block)
    if kind == "file" and "file" not in block and not _has_filename(block):
        named["filename"] = _FILENAME
    try:
        converted = convert_to_openai_messages([{"role": "user", "content": [named]}])
    except (ValueError, KeyError, TypeError):
        return dict(block)
    content = converted[0]["content"]
    only = content[0] if isinstance(content, list) and len(content) == 1 else None
    return dict(only) if isinstance(only, Mapping) else dict(block)


def _has_filename(block: Mapping[str, Any]) -> bool:
    sources = (block, block.get("extras"), block.get("metadata"))
    return any(isinstance(source, Mapping) and source.get("filename") for source in sources)
