"""Bytes to pixels, within limits: every form in which pictures come, and everything that is no picture."""

from __future__ import annotations

import contextlib
import struct
import sys
import tracemalloc
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image

from asymspec_agents.engine.vision.looking import Looker
from asymspec_agents.engine.vision.options import VisionOptions
from asymspec_agents.engine.vision.picture import FORMATS, Picture, pixels
from asymspec_agents.errors import ConfigurationError, MessageError, MissingDependencyError

from .images import encoded, noise
from .pairs import seeing_pair

PLACE = "messages[3].content[1]"


def read(data: bytes, **limits: int) -> Image.Image:
    image = pixels(Picture.of(data, PLACE), VisionOptions(**limits))
    assert isinstance(image, Image.Image)
    return image


def spread(image: Image.Image, wanted: Image.Image) -> float:
    return float(np.abs(np.asarray(image, np.int16) - np.asarray(wanted, np.int16)).mean())


@pytest.mark.parametrize("kind", FORMATS)
def test_formats_that_are_read(kind: str) -> None:
    options = {"quality": 95} if kind == "JPEG" else {"lossless": True} if kind == "WEBP" else {}
    picture = Image.new("RGB", (9, 5), (200, 30, 60))
    picture.putpixel((0, 0), (10, 220, 30))
    image = read(encoded(picture, kind, **options))
    assert (image.mode, image.size) == ("RGB", (9, 5))
    assert spread(image, picture) < 8


def test_pictures_of_any_mode_become_rgb() -> None:
    red = Image.new("RGB", (8, 6), (255, 0, 0))
    assert spread(read(encoded(red.convert("CMYK"), "JPEG", quality=100)), red) < 4
    assert spread(read(encoded(red.convert("P"))), red) == 0
    clear = Image.new("RGBA", (8, 6), (0, 0, 0, 0))
    clear.paste((0, 0, 0, 255), (0, 0, 4, 6))  # black on nothing
    assert read(encoded(clear)).getpixel((7, 0)) == (255, 255, 255)
    deep = Image.fromarray(np.linspace(0, 65_535, 48, dtype=np.uint16).reshape(6, 8))
    shades = np.asarray(read(encoded(deep)))[..., 0].ravel()
    assert (shades[0], shades[-1]) == (0, 255)
    assert len(set(shades.tolist())) == 48  # not cut off at 8 bits
    assert read(encoded(Image.new("1", (8, 6), 1))).getpixel((0, 0)) == (255, 255, 255)
    assert read(encoded(Image.new("LA", (8, 6), (40, 255)))).getpixel((0, 0)) == (40, 40, 40)


def test_a_photo_is_turned_upright() -> None:
    picture = Image.new("RGB", (8, 4), "white")
    picture.putpixel((0, 0), (0, 0, 0))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees
    image = read(encoded(picture, exif=exif))
    assert image.size == (4, 8)
    assert image.getpixel((3, 0)) == (0, 0, 0)


def test_of_an_animation_the_first_frame_is_seen() -> None:
    frames = [Image.new("RGB", (6, 6), color) for color in ("red", "blue", "green")]
    for kind in ("GIF", "WEBP"):
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:], duration=50)
        assert spread(read(data), frames[0]) < 8, kind


def _png(width: int, height: int) -> bytes:
    """The header of a picture that has no pixels at all."""

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


def test_a_size_is_checked_before_anything_is_decoded() -> None:
    tracemalloc.start()
    try:
        for width, height in ((5_001, 5_000), (12_000, 9_000), (60_000, 60_000), (2**31 - 1, 1)):
            with pytest.raises(
                MessageError, match=rf"^{_escaped(PLACE)}: the image has .* pixels, over the limit"
            ):
                read(_png(width, height))
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()
    with pytest.raises(
        MessageError, match=r"has 24×16 pixels, over the limit of max_image_pixels=383; send a"
    ):
        read(encoded(noise(1)), max_image_pixels=383)
    assert read(encoded(noise(1)), max_image_pixels=384).size == (24, 16)


def test_a_file_may_be_too_large() -> None:
    data = encoded(noise(1))
    with pytest.raises(
        MessageError, match=rf"has {len(data):,} bytes, over the limit of max_image_bytes=100"
    ):
        read(data, max_image_bytes=100)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_picture_that_is_cut_short_is_named(kind: str) -> None:
    data = encoded(noise(5, 64, 64), kind)
    with pytest.raises(MessageError, match=rf"^{_escaped(PLACE)}: the image is broken or cut short$"):
        read(data[: len(data) * 2 // 3])


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no picture",
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"%PDF-1.7",
        encoded(noise(1), "TIFF"),
        encoded(noise(1), "PPM"),
        encoded(noise(1), "ICO"),
    ],
    ids=["empty", "text", "svg", "pdf", "tiff", "ppm", "ico"],
)
def test_other_files_are_no_pictures(data: bytes) -> None:
    with pytest.raises(
        MessageError, match=r"the data are no image of a format that is read \(PNG, JPEG, WEBP"
    ):
        read(data)


def test_broken_bytes_of_any_kind_are_message_errors() -> None:
    generator = np.random.default_rng(0)
    for kind in FORMATS:
        data = bytearray(encoded(noise(3, 40, 40), kind))
        for _ in range(20):
            spoiled = bytearray(data)
            for at in generator.integers(0, len(data), 8):
                spoiled[at] = int(generator.integers(0, 256))
            with contextlib.suppress(MessageError):  # any other error fails the test
                assert read(bytes(spoiled)).mode == "RGB"


@pytest.mark.parametrize("family", ["qwen2_vl", "idefics3", "llava"])
def test_a_line_is_no_picture(family: str) -> None:
    """CLIP's processor would scale its shorter side up to the tower's, and the longer one with it."""
    looker = seeing_pair(family).prompts.looker
    for width, height in ((201, 1), (1, 201), (2, 403)):
        with pytest.raises(
            MessageError,
            match=rf"^{_escaped(PLACE)}: the image has {width}×{height} pixels; its longer side may be",
        ):
            looker.look(Picture.of(encoded(noise(1, width, height)), PLACE))
    for width, height in ((200, 1), (2, 400)):
        assert looker.look(Picture.of(encoded(noise(1, width, height)), PLACE)).layout.num_rows > 0


def test_what_an_image_processor_refuses_is_the_pictures_fault() -> None:
    def refuse(**_: Any) -> Any:
        raise ValueError("too plain")

    looker = seeing_pair("qwen2_vl").prompts.looker
    picky = Looker(looker.kind, refuse, looker._tokenizer, VisionOptions())
    with pytest.raises(
        MessageError, match=rf"^{_escaped(PLACE)}: the drafter's image processor refuses the image: "
    ):
        picky.look(Picture.of(encoded(noise(1)), PLACE))


def test_without_pillow_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingDependencyError, match=r"asymspec-agents\[images\]"):
        read(b"")


@pytest.mark.parametrize("name", ["max_images", "max_image_pixels", "max_image_bytes", "cache_bytes"])
@pytest.mark.parametrize("value", [-1, True, "3", 1.5])
def test_limits_are_checked(name: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=rf"^{name}={value!r} must be an integer of at least [01]$"):
        VisionOptions(**{name: value})  # type: ignore[arg-type]


def test_pixels_between_two_steps_are_bounded() -> None:
    looker = seeing_pair("qwen2_vl").prompts.looker
    small = Looker(looker.kind, looker._processor, looker._tokenizer, VisionOptions(cache_bytes=60_000))
    for seed in range(30, 50):
        small.look(Picture.of(encoded(noise(seed))))
        assert 0 < small._inputs.num_bytes <= 60_000
    assert len(small._inputs._entries) < 20


def _escaped(text: str) -> str:
    return text.replace("[", r"\[").replace("]", r"\]")


def test_pictures_are_told_by_their_bytes() -> None:
    assert Picture.of(b"a").digest == Picture.of(b"a", PLACE).digest != Picture.of(b"b").digest
    assert "secret" not in repr(Picture.of(b"secret"))
