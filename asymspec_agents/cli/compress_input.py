"""What `asymspec compress` reads: the text of a file in any common encoding, or the conversation it holds."""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import MessageError

__all__ = ["Conversation", "conversation_in", "read_text"]

# The longer marks first: UTF-32's begins with UTF-16's.
_BYTE_ORDER_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SAMPLE_BYTES = 65_536
_MAX_CONTROL_SHARE = 0.05
_TEXT_CONTROLS = frozenset(b"\t\n\r\f\x08\x1b")


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages and tools of a request, as they stand in a file."""

    messages: list[Any]
    tools: list[Any]


def read_text(file: str) -> str:
    """The text of a file, or of standard input for `-`.

    A byte order mark says which encoding it is; without one it is UTF-8, and bytes that are not are read as
    U+FFFD. Raises OSError where it cannot be read, MessageError where it is no text.
    """
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    name = "standard input" if file == "-" else file
    for mark, encoding in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            return data.decode(encoding, "replace")
    if _is_binary(data[:_SAMPLE_BYTES]):
        raise MessageError(f"{name} is binary, not text; convert it to text first")
    return data.decode("utf-8", "replace")


def _is_binary(sample: bytes) -> bool:
    if b"\0" in sample:
        return True
    controls = sum(byte < 32 and byte not in _TEXT_CONTROLS for byte in sample)
    return controls > _MAX_CONTROL_SHARE * len(sample)


def conversation_in(text: str) -> Conversation | None:
    """The conversation, where the text is a JSON object with a list of `messages` that have roles.

    Raises MessageError where its tools are no list.
    """
    if not text[:200].lstrip("\ufeff \t\r\n").startswith("{") or '"messages"' not in text:
        return None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return None
    messages = data.get("messages")
    if not isinstance(messages, list) or not messages:
        return None
    if not all(isinstance(message, Mapping) and "role" in message for message in messages):
        return None
    tools = data.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise MessageError(f"tools: must be a list, not {type(tools).__name__}")
    return Conversation(messages, tools or [])
