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


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_an_animation_is_named_that_states_no_time_and_has_a_colour_profile(kind: str) -> None:
    buffer = io.BytesIO()
    frames = [Image.new("RGB", (40, 30), colour) for colour in ("white", "blue")]
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], icc_profile=b"x" * 3_000)
    assert ", 40×30, animated, " in shown(Attachments(), image_part(buffer.getvalue()))


class Brightness:
    """A text reader that reads how bright an image's middle is; white and black are no text."""

    configuration = "brightness/1"

    def read(self, png: bytes) -> str:
        picture = Image.open(io.BytesIO(png)).convert("L")
        low, high = picture.getextrema()
        return "" if high - low < 32 and picture.getpixel((0, 0)) in (0, 255) else f"{low} to {high}"


@pytest.mark.parametrize(("kind", "part"), [("TIFF", "page"), ("GIF", "frame")])
def test_pages_and_frames_behind_the_first_are_read(kind: str, part: str) -> None:
    buffer = io.BytesIO()
    frames = [Image.new("L", (40, 30), grey) for grey in (255, 128, 0, 64, 255, 96, 0, 32)]
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:])
    with Attachments(AttachmentPolicy(max_ocr_pages=4), text_reader=Brightness()) as attachments:
        text = shown(attachments, image_part(buffer.getvalue()))
    assert f", 8 {part}s, " in text.partition("\n")[0]
    assert f"Text in {part} {'2' if part == 'page' else '4'} of 8:\n" in text
    assert f"No text found in {part} 1" in text
    assert f"Looked for text in {4 if part == 'page' else 3} of 8 {part}s." in text
    with Attachments(captioner=Seen()) as attachments:
        assert f"Shows ({part} 1 of 8): " in shown(attachments, image_part(buffer.getvalue()))


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
@pytest.mark.parametrize("greys", [(0,), (255,), (0, 255)])
def test_what_stands_on_nothing_stays_visible(mode: str, greys: tuple[int, ...]) -> None:
    picture = Image.new("RGBA", (60, 20), (255, 255, 255, 0))
    for number, grey in enumerate(greys):
        picture.paste((grey, grey, grey, 255), (20 * number + 5, 5, 20 * number + 15, 15))
    buffer = io.BytesIO()
    picture.convert(mode).save(buffer, "PNG")
    seen = Seen()
    with Attachments(captioner=seen) as attachments:
        shown(attachments, image_part(buffer.getvalue()))
    pixels = seen.pictures[0].convert("L")
    for number, grey in enumerate(greys):
        assert pixels.getpixel((20 * number + 10, 10)) == grey
        assert abs(pixels.getpixel((0, 0)) - grey) >= 64


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), BaseException("panic")]
)
def test_a_describer_cannot_end_the_program(error: BaseException) -> None:
    class Ends:
        configuration = "ends/1"

        def describe(self, png: bytes) -> str:
            raise error

        read = describe

    with Attachments(captioner=Ends(), text_reader=Ends()) as attachments:
        text = shown(attachments, image_part(image()))
    assert "could not be described: the captioner or text reader failed" in text


def test_a_picture_that_is_looked_at_smaller_says_so() -> None:
    with Attachments(captioner=Seen()) as attachments:
        text = shown(attachments, image_part(image("PNG", (3_000, 1_000))))
    assert ", looked at in 2,048×683; " in text


def test_a_kind_that_cannot_be_read_is_not_called_broken() -> None:
    heic = b"\x00\x00\x00\x18ftypheic" + b"\x00" * 50
    with Attachments(captioner=Seen()) as attachments:
        assert "this kind of image is not supported" in shown(attachments, image_part(heic))


@pytest.mark.full
def test_a_small_line_in_a_large_empty_picture_is_read() -> None:
    picture = Image.new("RGB", (3_000, 2_000), "white")
    font = ImageFont.load_default(32)
    ImageDraw.Draw(picture).text((20, 40), "Invoice 4711 total 98 EUR", fill="black", font=font)
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    with Attachments(text_reader=RapidOCRReader()) as attachments:
        text = shown(attachments, image_part(buffer.getvalue()))
    assert text.endswith("Text in it:\nInvoice 4711 total 98 EUR")


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
    assert blank.endswith("No text found in it.")


def test_sizes_are_those_that_pillow_reads() -> None:
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"):
        for size in ((1, 1), (7, 3), (300, 70)):
            data = image(kind, size)
            found = image_size(kind_of(data).name, data)
            assert found is not None
            assert (found.width, found.height) == size
