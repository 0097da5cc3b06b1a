"""Any picture as upright RGB images of moderate size, and the texts of an SVG drawing."""

from __future__ import annotations

import io
import re
from typing import Any
from xml.etree import ElementTree

from ...pixels import upright_rgb
from .limits import Converted, Limits, RefusedError, joined

__all__ = ["convert_picture", "convert_svg"]

_FORMATS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "ICO", "AVIF", "PPM", "TGA", "JPEG2000")
_MAX_SIDE = 2_048  # what vision models and text readers take
_MAX_FRAMES = 3  # of an animation: its first, its middle and its last one
_TEXT_TAGS = frozenset({"text", "title", "desc"})


def convert_picture(data: bytes, limits: Limits) -> Converted:
    """The picture as PNGs in `pictures`: upright, opaque, of at most 2,048 pixels a side.

    One, or the first `ocr_pages` pages of a TIFF file, or frames from all over an animation; `pages` has
    their numbers. What is transparent gets a ground that the rest stands out from.
    """
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # the limit is checked here, where it can be told
    pages: list[int] = []
    pictures: list[bytes] = []
    try:
        with Image.open(io.BytesIO(data), formats=_FORMATS) as opened:
            num_frames = _num_frames(opened)
            for number in _looked_at(num_frames, opened.format == "TIFF", limits.ocr_pages):
                try:
                    picture = _frame(opened, number, limits)
                except (RefusedError, MemoryError):
                    raise
                except Exception:  # each format's decoder has its own
                    if number == 1:
                        raise
                    continue
                size = picture.size
                picture.thumbnail((_MAX_SIDE, _MAX_SIDE))
                if not pages:
                    scaled = picture.size if picture.size != size else None
                buffer = io.BytesIO()
                picture.save(buffer, "PNG")
                pages.append(number)
                pictures.append(buffer.getvalue())
    except (RefusedError, MemoryError):
        raise
    except Exception:
        raise RefusedError("it is broken or cut short") from None
    return Converted("", pages=tuple(pages), pictures=tuple(pictures), num_frames=num_frames, scaled=scaled)


def _num_frames(opened: Any) -> int:
    if opened.format == "ICO":  # one picture in several sizes
        return 1
    try:
        return int(getattr(opened, "n_frames", 1))
    except Exception:  # a later frame's header is broken, the first one may be whole
        return 1


def _looked_at(num_frames: int, is_paged: bool, most: int) -> list[int]:
    if num_frames == 1 or most <= 1:
        return [1]
    if is_paged:
        return list(range(1, min(num_frames, most) + 1))
    count = min(num_frames, most, _MAX_FRAMES)
    return [1 + (num_frames - 1) * step // (count - 1) for step in range(count)]


def _frame(opened: Any, number: int, limits: Limits) -> Any:
    if number > 1:
        opened.seek(number - 1)
    width, height = opened.size
    if width * height > limits.max_pixels:
        raise RefusedError(f"it has more than {limits.max_pixels:,} pixels")
    opened.load()
    return upright_rgb(opened)


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
