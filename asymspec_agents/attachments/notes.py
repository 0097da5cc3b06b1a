"""The one line that says what an attachment is, or why there is nothing else of it."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ..store import short_reference

__all__ = ["header", "note", "quoted", "size_of", "text_label"]

_MAX_NAME_CHARS = 120
_MAX_REASON_CHARS = 200
_UNPRINTED = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\"\[\]]+")
_LABELS = {
    "csv": "CSV",
    "tsv": "TSV",
    "md": "Markdown",
    "markdown": "Markdown",
    "json": "JSON",
    "jsonl": "JSON lines",
    "xml": "XML",
    "yaml": "YAML",
    "yml": "YAML",
    "log": "log",
}


def header(noun: str, name: str | None, details: Iterable[str | None], data: bytes) -> str:
    """`[file "report.pdf": PDF, 3 pages; sha256:0123456789ab]`."""
    what = ", ".join(detail for detail in details if detail)
    return f"[{_named(noun, name)}: {what}; {short_reference(data)}]"


def note(noun: str, name: str | None, reason: str) -> str:
    """`[file "report.pdf" not read: …]`, for an attachment that there are no bytes of."""
    return f"[{_named(noun, name)} not read: {_plain(reason, _MAX_REASON_CHARS)}]"


def size_of(text: str) -> str:
    """A text's length in characters."""
    return f"{len(text):,} character" + ("s" if len(text) != 1 else "")


def quoted(text: str | None, prefix: str = "") -> str | None:
    """A title or name in quotes, on one line and short; None where nothing is left of it."""
    plain = _plain(text, _MAX_NAME_CHARS) if text is not None else ""
    return f'{prefix}"{plain}"' if plain else None


def text_label(name: str | None) -> str:
    """What to call a file of plain text: its name tells more than its bytes do."""
    return _LABELS.get((name or "").rpartition(".")[2].lower(), "text")


def _named(noun: str, name: str | None) -> str:
    shown = quoted(name)
    return f"{noun} {shown}" if shown else noun


def _plain(text: str, most: int) -> str:
    plain = " ".join(_UNPRINTED.sub(" ", text[: 4 * most]).split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"
