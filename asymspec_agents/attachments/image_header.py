"""An image's size, read from its first bytes without decoding it.

Sources: the PNG, JPEG (ITU T.81, Exif 2.3), GIF89a, WebP container, BMP, TIFF 6.0 and ISO base media formats.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["ImageSize", "image_size"]

_SVG_TAG = re.compile(rb"<(?:\w+:)?svg\b[^>]{0,4096}>", re.S)
_SVG_LENGTH = rb"""\b%s\s*=\s*["']\s*(\d{1,9})(?:\.\d+)?(?:px)?\s*["']"""
_VIEW_BOX = re.compile(
    rb"""\bviewBox\s*=\s*["']\s*[-\d.]+[\s,]+[-\d.]+[\s,]+(\d{1,9})[\d.]*[\s,]+(\d{1,9})"""
)
_PIXMAP = re.compile(rb"P[4-6](?:\s+|#[^\n]*\n)+(\d{1,9})(?:\s+|#[^\n]*\n)+(\d{1,9})\s")
_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_ORIENTATION_TAG = 0x0112


@dataclass(frozen=True, slots=True)
class ImageSize:
    """Width and height in pixels as it is looked at (upright), and whether it moves."""

    width: int
    height: int
    is_animated: bool = False


def image_size(kind: str, data: bytes) -> ImageSize | None:
    """The size of an image of the kind; None where its header is cut short or unknown."""
    read = _READERS.get(kind)
    try:
        size = read(data) if read is not None else None
    except (struct.error, IndexError, ValueError):
        return None
    return size if size is not None and size.width > 0 and size.height > 0 else None


def _png(data: bytes) -> ImageSize:
    width, height = struct.unpack_from(">II", data, 16)
    return ImageSize(width, height, any(name == b"acTL" for name in _png_chunks(data)))


def _png_chunks(data: bytes) -> Iterator[bytes]:
    """The names of the chunks before the pixels; a colour profile among them may be long."""
    at, name = 8, b""
    while at + 8 <= len(data) and name != b"IDAT":
        name = data[at + 4 : at + 8]
        yield name
        at += 12 + int.from_bytes(data[at : at + 4], "big")


def _gif(data: bytes) -> ImageSize:
    width, height = struct.unpack_from("<HH", data, 6)
    return ImageSize(width, height, _has_frames(data))


def _has_frames(gif: bytes) -> bool:
    """Whether there are two images, which need not say how long they are shown."""
    at, num_images = 13 + _gif_table(gif[10]), 0
    while at + 10 < len(gif) and num_images < 2:
        if gif[at] == 0x2C:
            num_images += 1
            at += 11 + _gif_table(gif[at + 9])
        elif gif[at] == 0x21:
            at += 2
        else:
            break
        while gif[at]:  # sub-blocks, up to an empty one
            at += 1 + gif[at]
        at += 1
    return num_images == 2


def _gif_table(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _bmp(data: bytes) -> ImageSize:
    if struct.unpack_from("<I", data, 14)[0] == 12:
        width, height = struct.unpack_from("<HH", data, 18)
    else:
        width, height = struct.unpack_from("<ii", data, 18)
    return ImageSize(width, abs(height))


def _ico(data: bytes) -> ImageSize:
    """The largest of its images; 0 stands for 256."""
    entries = range(6, 6 + 16 * int.from_bytes(data[4:6], "little"), 16)
    sizes = [(data[at] or 256, data[at + 1] or 256) for at in entries]
    return ImageSize(*max(sizes))


def _webp(data: bytes) -> ImageSize | None:
    chunk = data[12:16]
    if chunk == b"VP8X":
        width = int.from_bytes(data[24:27], "little") + 1
        height = int.from_bytes(data[27:30], "little") + 1
        return ImageSize(width, height, bool(data[20] & 2))
    if chunk == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return ImageSize(width & 0x3FFF, height & 0x3FFF)
    if chunk == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return ImageSize((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
    return None


def _jpeg(data: bytes) -> ImageSize | None:
    position, is_turned = 2, False
    while position + 4 <= len(data):
        if data[position] != 0xFF:
            return None
        marker = data[position + 1]
        if marker == 0xFF:
            position += 1
            continue
        (length,) = struct.unpack_from(">H", data, position + 2)
        if marker == 0xE1 and data[position + 4 : position + 10] == b"Exif\x00\x00":
            is_turned = _is_turned(data[position + 10 : position + 2 + length])
        if marker in _FRAME_MARKERS:
            height, width = struct.unpack_from(">HH", data, position + 5)
            return ImageSize(height, width) if is_turned else ImageSize(width, height)
        position += 2 + length
    return None


def _is_turned(tiff: bytes) -> bool:
    """Whether Exif says the image is shown turned by a quarter."""
    try:
        return any(tag == _ORIENTATION_TAG and 5 <= value <= 8 for tag, value in _tiff_fields(tiff))
    except (struct.error, IndexError):
        return False


def _tiff(data: bytes) -> ImageSize | None:
    fields = dict(_tiff_fields(data))
    if 256 not in fields or 257 not in fields:
        return None
    width, height = fields[256], fields[257]
    return ImageSize(height, width) if 5 <= fields.get(_ORIENTATION_TAG, 1) <= 8 else ImageSize(width, height)


def _tiff_fields(data: bytes) -> list[tuple[int, int]]:
    """The first directory's tags with a short or long value."""
    order = "<" if data[:2] == b"II" else ">"
    (start,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, start)
    fields = []
    for at in range(start + 2, start + 2 + 12 * count, 12):
        tag, kind = struct.unpack_from(order + "HH", data, at)
        fields.append((tag, struct.unpack_from(order + ("H" if kind == 3 else "I"), data, at + 8)[0]))
    return fields


def _iso(data: bytes) -> ImageSize | None:
    """HEIC and AVIF: the largest image's extent; the others are its thumbnail and its tiles."""
    sizes = []
    head = data[:65_536]
    at = head.find(b"ispe")
    while at >= 0:
        sizes.append(struct.unpack_from(">II", head, at + 8))
        at = head.find(b"ispe", at + 4)
    if not sizes:
        return None
    width, height = max(sizes, key=lambda size: size[0] * size[1])
    return ImageSize(width, height, data[8:12] == b"avis")


def _pixmap(data: bytes) -> ImageSize | None:
    sides = _PIXMAP.match(data[:4_096])
    return ImageSize(int(sides.group(1)), int(sides.group(2))) if sides is not None else None


def _tga(data: bytes) -> ImageSize:
    return ImageSize(*struct.unpack_from("<HH", data, 12))


def _jpeg_2000(data: bytes) -> ImageSize | None:
    at = data[:65_536].find(b"ihdr")
    if at < 0:
        return None
    height, width = struct.unpack_from(">II", data, at + 4)
    return ImageSize(width, height)


def _svg(data: bytes) -> ImageSize | None:
    tag = _SVG_TAG.search(data[:65_536])
    if tag is None:
        return None
    width, height = (re.search(_SVG_LENGTH % name, tag.group()) for name in (b"width", b"height"))
    if width is not None and height is not None:
        return ImageSize(int(width.group(1)), int(height.group(1)))
    box = _VIEW_BOX.search(tag.group())
    return ImageSize(int(box.group(1)), int(box.group(2))) if box is not None else None


_READERS = {
    "PNG": _png,
    "GIF": _gif,
    "BMP": _bmp,
    "ICO": _ico,
    "WebP": _webp,
    "JPEG": _jpeg,
    "TIFF": _tiff,
    "HEIC": _iso,
    "AVIF": _iso,
    "SVG": _svg,
    "PPM": _pixmap,
    "TGA": _tga,
    "JPEG 2000": _jpeg_2000,
}
