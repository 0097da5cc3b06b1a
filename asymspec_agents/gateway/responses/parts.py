"""Content parts of Responses messages as parts of chat messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...errors import MessageError
from .fields import a_list, a_mapping, a_text, refuse

__all__ = ["chat_content"]

FILE_FIELDS = ("file_data", "file_url", "file_id", "filename")


def chat_content(content: object, place: str) -> str | list[dict[str, Any]]:
    """A message's content as chat has it: the text where it is one, else a list of parts."""
    if isinstance(content, str):
        return content
    parts = [
        _part(a_mapping(part, f"{place}[{index}]"), f"{place}[{index}]")
        for index, part in enumerate(a_list(content, place))
    ]
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    return parts


def _part(part: Mapping[str, Any], place: str) -> dict[str, Any]:
    kind = part.get("type")
    if kind in ("input_text", "output_text", "text"):
        return {"type": "text", "text": a_text(part, "text", place)}
    if kind == "refusal":
        return {"type": "refusal", "refusal": a_text(part, "refusal", place)}
    if kind == "input_image":
        return _image(part, place)
    if kind == "input_file":
        file = {name: part[name] for name in FILE_FIELDS if part.get(name) is not None}
        if not file.keys() - {"filename"}:
            raise MessageError(f"{place}: an input_file needs file_data, file_url or file_id")
        return {"type": "file", "file": file}
    if kind == "input_audio":
        return {"type": "input_audio", "input_audio": dict(a_mapping(part.get("input_audio"), place))}
    if isinstance(kind, str):
        refuse(f"{place}.type", kind, "no content that a chat completion can carry")
    raise MessageError(f"{place}.type: must be a string")


def _image(part: Mapping[str, Any], place: str) -> dict[str, Any]:
    if part.get("image_url") is None and part.get("file_id") is not None:
        refuse(
            f"{place}.file_id", None, "files are stored at another service; send image_url, a data: URL too"
        )
    image = {"url": a_text(part, "image_url", place)}
    if part.get("detail") is not None:
        image["detail"] = part["detail"]
    return {"type": "image_url", "image_url": image}
