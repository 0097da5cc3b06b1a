"""Content parts that carry a file or an image, read from every form in which clients send them.

Known are OpenAI's chat parts (`image_url`, `file`), those of its Responses API (`input_image`, `input_file`),
Anthropic's and LangChain's blocks (`image`, `document`, `file` with `source`, `base64` or `url`; Google's
`media`).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_to_bytes

from ..messages import ContentPart

__all__ = ["IMAGE_TYPES", "Attachment", "read_part"]

IMAGE_TYPES = frozenset({"image_url", "input_image", "image"})
_FILE_TYPES = frozenset({"file", "input_file", "document", "media"})
_DATA_URL = re.compile(r"data:([^,]{0,4000}),", re.I)
_URL = re.compile(r"\s*([a-z][a-z0-9+.-]{1,20}):", re.I)
_BASE64 = re.compile(r";\s*base64\s*$", re.I)
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.I)
_SPACE = re.compile(r"\s+")
_URL_SAFE = str.maketrans("-_", "+/")


@dataclass(frozen=True, slots=True)
class Attachment:
    """What a part carries: `data`, or the `url` it stands at, or the `problem` that it has neither.

    `name` is the file's name as given; `is_image` what the part's type says; `charset` the encoding that is
    stated for a text.
    """

    is_image: bool
    data: bytes | None = None
    url: str | None = None
    problem: str | None = None
    name: str | None = None
    charset: str | None = None


def read_part(part: ContentPart, max_bytes: int) -> Attachment | None:
    """The part's attachment; None for other parts, and for those that are a type and nothing else."""
    is_image = part.type in IMAGE_TYPES
    fields = part.model_extra
    if not fields or not (is_image or part.type in _FILE_TYPES):
        return None
    given = _given(part.type, fields)
    name = next((value for key in ("filename", "name", "title") if (value := _text(given.get(key)))), None)
    text = _text(given.get("plain"))
    if text is not None:
        return _inline(text.encode("utf-8", "surrogatepass"), max_bytes, is_image, name, "utf-8")
    source = next(
        (value for key in ("file_data", "data", "base64", "url") if (value := _text(given.get(key)))), None
    )
    if source is None:
        identity = "it is a reference (file_id) to another service, without data"
        problem = identity if _text(given.get("file_id")) else "it has neither data nor a URL"
        return Attachment(is_image, problem=problem, name=name)
    match = _DATA_URL.match(source)
    if match is None:
        scheme = _URL.match(source)
        if scheme is not None and scheme.group(1).lower() == "data":
            return Attachment(is_image, problem="its data URL is malformed", name=name)
        if scheme is not None or _text(given.get("url")) == source:
            return Attachment(is_image, url=source, name=name)
    stated = (_text(given.get(key)) for key in ("media_type", "mime_type"))
    media_type = match.group(1) if match is not None else next(filter(None, stated), "")
    charset = _CHARSET.search(f";{media_type}")
    return _decoded(
        source, match, max_bytes, is_image, name, charset.group(1) if charset is not None else None
    )


def _given(kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that matter, under one set of names."""
    nested = [fields[key] for key in (kind, "image_url", "source") if isinstance(fields.get(key), Mapping)]
    given: dict[str, Any] = {key: value for level in (fields, *nested) for key, value in level.items()}
    for key in ("image_url", "file_url", "source"):
        if isinstance(given.get(key), str):
            given.setdefault("url", given[key])
    if "text" in (given.get("source_type"), *(level.get("type") for level in nested)):
        given["plain"] = given.get("data") or given.get("text")
    return given


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _decoded(
    source: str,
    match: re.Match[str] | None,
    max_bytes: int,
    is_image: bool,
    name: str | None,
    charset: str | None,
) -> Attachment:
    is_base64 = match is None or _BASE64.search(match.group(1)) is not None
    encoded = source[match.end() :] if match is not None else source
    if len(encoded) // 4 * 3 > max_bytes + 2 and is_base64:
        return Attachment(is_image, problem=_too_large(max_bytes), name=name)
    if not is_base64:
        return _inline(
            unquote_to_bytes(encoded.encode("utf-8", "replace")), max_bytes, is_image, name, charset
        )
    if "%" in encoded:
        encoded = unquote_to_bytes(encoded.encode("utf-8", "replace")).decode("latin-1")
    digits = _SPACE.sub("", encoded).translate(_URL_SAFE).rstrip("=")
    try:
        data = base64.b64decode(digits + "=" * (-len(digits) % 4), validate=True)
    except (binascii.Error, ValueError):
        return Attachment(is_image, problem="its data is not valid base64", name=name)
    return _inline(data, max_bytes, is_image, name, charset)


def _inline(data: bytes, max_bytes: int, is_image: bool, name: str | None, charset: str | None) -> Attachment:
    if not data:
        return Attachment(is_image, problem="it is empty", name=name)
    if len(data) > max_bytes:
        return Attachment(is_image, problem=_too_large(max_bytes), name=name)
    return Attachment(is_image, data=data, name=name, charset=charset)


def _too_large(max_bytes: int) -> str:
    return f"it is larger than {max_bytes:,} bytes"
