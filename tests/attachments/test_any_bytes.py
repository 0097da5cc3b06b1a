"""Whatever bytes and fields an attachment has: nothing is raised, and notes are short and on one line."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from asymspec_agents.attachments import AttachmentPolicy, Attachments
from asymspec_agents.messages import parse_messages
from asymspec_agents.store import MemoryStore
from tests.attachments import files
from tests.attachments.files import docx, image, paragraph, pdf, shown, slides, xlsx


class Echo:
    configuration = "echo/1"

    def describe(self, png: bytes) -> str:
        return str(Image.open(io.BytesIO(png)).size)


SAMPLES = [
    pdf(["one", ""]),
    docx(paragraph("x")),
    xlsx([["a", "=B1"]]),
    slides("x"),
    *(image(kind) for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO")),
    b"<svg width='1' height='2'><text>x</text></svg>",
    b"<html><p>x</p></html>",
    b"From: a\nTo: b\n\nx",
    b"{}",
    files.ENCRYPTED,
]
MAGICS = [
    *(b"%PDF-", b"PK\x03\x04", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF0000WEBP", b"BM"),
    *(
        b"II*\x00",
        b"MM\x00*",
        b"\x00\x00\x00 ftypheic",
        b"\x00\x00\x01\x00",
        b"<svg",
        b"<html",
        b"\xff\xfe",
        b"",
    ),
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    data = bytearray(draw(st.sampled_from(SAMPLES)))
    for _ in range(draw(st.integers(0, 6))):
        at = draw(st.integers(0, len(data) - 1))
        data[at] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(1, len(data)))] if draw(st.booleans()) else data)


anything = damaged() | st.builds(bytes.__add__, st.sampled_from(MAGICS), st.binary(max_size=300))


@pytest.fixture(scope="module")
def attachments() -> Iterator[Attachments]:
    with Attachments(AttachmentPolicy(max_cached_bytes=0), captioner=Echo()) as made:
        yield made


@settings(max_examples=150)
@given(data=anything, name=st.none() | st.text(max_size=300), is_image=st.booleans())
def test_any_bytes(attachments: Attachments, data: bytes, name: str | None, is_image: bool) -> None:
    file = {"file_data": files.url_of(data), "filename": name}
    part = files.image_part(data) if is_image else {"type": "file", "file": file}
    text = shown(attachments, part)
    head = text.partition("\n")[0]
    assert head.startswith("[")
    assert head.endswith("]")
    assert len(head) < 600
    assert shown(attachments, part) == text


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = [
    "file",
    "image_url",
    "url",
    "file_data",
    "data",
    "base64",
    "source",
    "file_id",
    "filename",
    "source_type",
    "file_url",
    "type",
    "text",
    "title",
]
nested = st.fixed_dictionaries(
    {}, optional={"url": json_values, "file_data": json_values, "type": json_values}
)
fields = st.dictionaries(st.sampled_from(NAMES), json_values | nested)
KINDS = ["file", "image_url", "input_file", "input_image", "image", "document"]


@settings(max_examples=150)
@given(kind=st.sampled_from(KINDS), extra=fields)
def test_any_fields(attachments: Attachments, kind: str, extra: dict[str, Any]) -> None:
    part = {**extra, "type": kind}
    if not (part.get("text") is None or isinstance(part["text"], str)):
        part.pop("text")
    read = attachments.read(parse_messages([{"role": "tool", "content": [part]}]), MemoryStore())
    assert len(read.full) == 1
    if read.headers:
        assert read.full[0].texts()[0].startswith("[")
