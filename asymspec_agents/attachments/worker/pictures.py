"""Any picture as an upright RGB image of moderate size, and the texts of an SVG drawing."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

from .limits import Converted, Limits, RefusedError, joined

__all__ = ["convert_picture", "convert_svg"]

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO", "AVIF")
_MAX_SIDE = 2_048  # what vision models and text readers take
_TEXT_TAGS = frozenset({"text", "title", "desc"})


def convert_picture(data: bytes, limits: Limits) -> Converted:
    """The picture's first frame as a PNG in `pictures`: upright, on white, of at most 2,048 pixels a side."""
    from PIL import Image, ImageOps

    Image.MAX_IMAGE_PIXELS = None  # the limit is checked here, where it can be told
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as opened:
            width, height = opened.size
            if width * height > limits.max_pixels:
                raise RefusedError(f"it has more than {limits.max_pixels:,} pixels")
            opened.load()
            picture = ImageOps.exif_transpose(opened)
            picture = _rgb(picture)
    except RefusedError:
        raise
    except MemoryError:
        raise
    except Exception:  # each format's decoder has its own
        raise RefusedError("it is broken or cut short") from None
    picture.thumbnail((_MAX_SIDE, _MAX_SIDE))
    buffer = io.BytesIO()
    picture.save(buffer, "PNG")
    return Converted("", pictures=(buffer.getvalue(),))


def _rgb(picture: Any) -> Any:
    from PIL import Image

    if picture.mode.startswith("I;16"):
        picture = picture.convert("I")
    if picture.mode in ("I", "F"):  # one channel of more than 8 bits: its range becomes black to white
        low, high = picture.getextrema()
        if picture.mode == "I" and low >= 0 and high > 255:
            low, high = 0, max(high, 65_535)
        scale = 255 / (high - low) if high > low else 0
        picture = picture.convert("F").point(lambda value: value * scale - low * scale).convert("L")
    if picture.mode in ("P", "PA", "LA", "La", "RGBa") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
    if picture.mode == "RGBA":
        ground = Image.new("RGBA", picture.size, "white")
        picture = Image.alpha_composite(ground, picture)
    return picture.convert("RGB")


def convert_svg(data: bytes, limits: Limits) -> Converted:
    """The words in an SVG drawing, which is not rendered."""
    if re.search(rb"<!ENTITY", data, re.I):
        raise RefusedError("its XML declares entities")
    words: list[str] = []
    try:
        for _, element in ElementTree.iterparse(io.BytesIO(data)):
            if str(element.tag).rpartition("}")[2] in _TEXT_TAGS:
                words.append(" ".join("".join(element.itertext()).split()))
    except (ElementTree.ParseError, ValueError, LookupError):
        raise RefusedError("it is broken or cut short") from None
    return Converted(joined(filter(None, words), limits, "the rest"))
