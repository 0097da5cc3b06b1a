"""Fields added to a JSON object's bytes, every other byte left as it was."""

from __future__ import annotations

import codecs
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["encoded", "with_fields"]

_BLANKS = b" \t\r\n"


def encoded(value: Any) -> bytes:
    """The value's JSON in ASCII: lone surrogates, which tool outputs do contain, have no UTF-8."""
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode("ascii")


def with_fields(raw: bytes, fields: Mapping[str, Any]) -> bytes:
    """`raw`, the text of a JSON object that has none of these fields, with them at its end."""
    if not fields:
        return raw
    head = raw.removeprefix(codecs.BOM_UTF8).rstrip(_BLANKS).removesuffix(b"}").rstrip(_BLANKS)
    comma = b"" if head.endswith(b"{") else b","
    return head + comma + encoded(fields)[1:]
