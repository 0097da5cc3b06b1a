"""Text of models and data in a page: it is hostile input, and is shown, never obeyed."""

from __future__ import annotations

import html
import re

__all__ = ["clipped", "safe", "visible"]

# Controls, and what reorders or hides text (bidirectional marks, zero widths, tags, byte order marks).
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """The text with what would be hidden, or would reorder the rest, written as its number."""
    return _HIDDEN.sub(lambda found: f"⟨U+{ord(found.group()):04X}⟩", text.replace("\r\n", "\n"))


def safe(text: str) -> str:
    """The text for HTML, in an element or a quoted attribute; hidden characters show as their number."""
    return html.escape(visible(text))


def clipped(text: str, limit: int) -> str:
    """At most `limit` characters of a text, its middle replaced by how much is left out."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half:,} characters left out …\n{text[-half:]}"
