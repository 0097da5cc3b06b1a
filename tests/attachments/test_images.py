"""Images become their size and format, a caption and what is written in them, whatever their encoding."""

from __future__ import annotations

import io
import struct
import threading
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFont

from asymspec_agents.attachments import AttachmentPolicy, Attachments, RapidOCRReader
from asymspec_agents.attachments.image_header import image_size
from asymspec_agents.attachments.kinds import kind_of
from asymspec_agents.messages import parse_messages
from asymspec_agents.store import MemoryStore
from tests.attachments.files import image, image_part, shown

EXIF_TURNED = Image.Exif()
EXIF_TURNED[0x0112] = 6
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="120" height="80px"><title>Plan</title>'
    "<text>Exit <tspan>left</tspan> here</text></svg>"
)


class Seen:
    """A captioner and text reader that says what size it was shown."""

    configuration = "seen/1"

    def __init__(self) -> None:
        self.pictures: list[Any] = []

    def describe(self, png: bytes) -> str:
        picture = Image.open(io.BytesIO(png))
        self.pictures.append(picture)
        return f"{picture.format} {picture.mode} {picture.size}"

    read = describe


CASES = [
    ("PNG", image("PNG"), "PNG, 40×30"),
    ("1-bit", image("PNG", mode="1"), "PNG, 40×30"),
    ("16-bit", image("PNG", mode="I;16"), "PNG, 40×30"),
    ("palette", image("PNG", mode="P"), "PNG, 40×30"),
    ("transparent", image("PNG", mode="RGBA"), "PNG, 40×30"),
    ("grey and alpha", image("PNG", mode="LA"), "PNG, 40×30"),
    ("JPEG", image("JPEG"), "JPEG, 40×30"),
    ("CMYK", image("JPEG", mode="CMYK"), "JPEG, 40×30"),
    ("turned", image("JPEG", exif=EXIF_TURNED), "JPEG, 30×40"),
    ("GIF", image("GIF"), "GIF, 40×30"),
    ("WebP", image("WEBP"), "WebP, 40×30"),
    ("lossless WebP", image("WEBP", lossless=True), "WebP, 40×30"),
    ("BMP", image("BMP"), "BMP, 40×30"),
    ("TIFF", image("TIFF"), "TIFF, 40×30"),
    ("float TIFF", image("TIFF", mode="F"), "TIFF, 40×30"),
    ("ICO", image("ICO", (32, 32)), "ICO, 32×32"),
]


def _animated(kind: str) -> bytes:
    buffer = io.BytesIO()
    frames = [Image.new("RGB", (40, 30), colour) for colour in ("red", "blue", "green")]
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], duration=100, loop=0)
    return buffer.getvalue()


@pytest.mark.parametrize(("data", "head"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_an_image_is_told_by_size_and_format_and_shown_upright_in_rgb(data: bytes, head: str) -> None:
    seen = Seen()
    with Attachments(captioner=seen) as attachments:
        text = shown(attachments, image_part(data))
    assert text.startswith(f"[image: {head}, {len(data):,} bytes; sha256:")
    width, height = head.split(", ")[1].split("×")
    assert text.endswith(f"]\nShows: PNG RGB ({width}, {height})")


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_an_animation_is_named(kind: str) -> None:
    assert ", 40×30, animated, " in shown(Attachments(), image_part(_animated(kind)))


def test_without_a_describer_nothing_is_started() -> None:
    attachments = Attachments()
    text = shown(attachments, image_part(image()))
    assert "not described: no captioner or text reader is set" in text
    assert attachments._reader.converter._process is None


def test_an_svg_is_its_words(attachments: Attachments) -> None:
    text = shown(attachments, image_part(SVG.encode()))
    assert text.startswith("[image: SVG, 120×80, ")
    assert text.endswith("]\nText in it:\nPlan\nExit left here")
    bomb = '<!DOCTYPE svg [<!ENTITY a "b">]>' + SVG
    assert "could not be described: its XML declares entities" in shown(
        attachments, image_part(bomb.encode())
    )
    assert "it is broken or cut short" in shown(attachments, image_part(SVG[:-9].encode()))


def test_a_large_image_is_shown_smaller_and_a_bomb_never_opened() -> None:
    seen = Seen()
    bomb = bytearray(image("PNG"))
    bomb[16:24] = struct.pack(">II", 60_000, 60_000)
    with Attachments(captioner=seen) as attachments:
        shown(attachments, image_part(image("PNG", (3_000, 1_000))))
        text = shown(attachments, image_part(bytes(bomb)))
    assert [picture.size for picture in seen.pictures] == [(2_048, 683)]
    assert "60,000×60,000" in text
    assert "could not be described: it has more than 50,000,000 pixels" in text


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
@pytest.mark.parametrize("share", [0.02, 0.3, 0.9])
def test_a_truncated_image_is_named(kind: str, share: float) -> None:
    buffer = io.BytesIO()
    Image.effect_noise((64, 48), 90).convert("RGB").save(buffer, kind)
    data = buffer.getvalue()[: max(14, int(len(buffer.getvalue()) * share))]
    with Attachments(captioner=Seen()) as attachments:
        text = shown(attachments, image_part(data))
    assert "could not be described: it" in text or text.endswith("Shows: PNG RGB (64, 48)")


def test_a_failing_or_slow_captioner_is_named_and_its_failure_stays() -> None:
    class Fails:
        configuration = "fails/1"
        asked = 0

        def describe(self, png: bytes) -> str:
            self.asked += 1
            raise ValueError("secret")

    release = threading.Event()

    class Hangs(Fails):
        def describe(self, png: bytes) -> str:
            release.wait(20)
            return "late"

    for captioner in (Hangs(), Fails()):
        with Attachments(AttachmentPolicy(describe_timeout_s=0.2), captioner=captioner) as attachments:
            first = shown(attachments, image_part(image()))
            assert "could not be described: the captioner or text reader failed" in first
            assert "secret" not in first
            release.set()
            assert shown(attachments, image_part(image())) == first
    with Attachments(captioner=Fails(), text_reader=Seen()) as attachments:
        text = shown(attachments, image_part(image()))
    assert ", a captioner or text reader failed; " in text
    assert "Text in it:\nPNG" in text


def test_an_image_is_stored_and_described_once_however_often_it_recurs() -> None:
    seen, store = Seen(), MemoryStore()
    part = image_part(image())
    messages = parse_messages(
        [{"role": "user", "content": [part, part]}, {"role": "user", "content": [part]}]
    )
    with Attachments(captioner=seen) as attachments:
        for _ in range(3):
            read = attachments.read(messages, store)
    assert (read.num_images, read.num_documents, read.num_degraded) == (3, 0, 0)
    assert len(seen.pictures) == 1
    assert store.stats().num_entries == 1


def test_printed_text_is_read() -> None:
    picture = Image.new("RGB", (760, 150), "white")
    draw, font = ImageDraw.Draw(picture), ImageFont.load_default(32)
    draw.text((20, 20), "Invoice 1147", fill="black", font=font)
    draw.text((480, 22), "4,310.50 EUR", fill="black", font=font)
    draw.text((20, 90), "Due 17 December 2026", fill="black", font=font)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    reader = RapidOCRReader()
    with Attachments(text_reader=reader) as attachments:
        text = shown(attachments, image_part(buffer.getvalue()))
        blank = shown(attachments, image_part(image("PNG", (200, 200))))
    assert text.endswith("Text in it:\nInvoice 1147 4,310.50 EUR\nDue 17 December 2026")
    assert blank.endswith("No text in it.")


def test_sizes_are_those_that_pillow_reads() -> None:
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        for size in ((1, 1), (7, 3), (300, 70)):
            data = image(kind, size)
            found = image_size(kind_of(data).name, data)
            assert found is not None
            assert (found.width, found.height) == size
