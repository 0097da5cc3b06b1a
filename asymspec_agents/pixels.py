"""A decoded picture as models read it: upright, opaque, in 8-bit RGB, whatever its file holds."""

from __future__ import annotations

from typing import Any

__all__ = [
    "MAX_ASPECT_RATIO",
    "MAX_SEEN_BYTES",
    "MAX_SEEN_IMAGES",
    "MAX_SEEN_PIXELS",
    "is_too_narrow",
    "upright_rgb",
]

# Of the longer side to the shorter: what Qwen's image processors take. CLIP's scale the shorter side up, so
# that a line of one pixel, a file of some bytes, would become gigabytes.
MAX_ASPECT_RATIO = 200
MAX_SEEN_PIXELS, MAX_SEEN_BYTES = 25_000_000, 20 * 1024**2
"""Of an image that a model is shown, unless its options say otherwise; routers make text of larger ones."""

MAX_SEEN_IMAGES = 16
"""Of one request, likewise; routers make text of the oldest beyond."""

_VISIBLE_CONTRAST = 64  # of 255
_GROUNDS = (255, 0, 128)  # white first, which most transparent pictures are made for


def is_too_narrow(width: int, height: int) -> bool:
    """Whether a picture of this size is beyond MAX_ASPECT_RATIO, which no model is shown."""
    return max(width, height) > MAX_ASPECT_RATIO * min(width, height)


def upright_rgb(picture: Any) -> Any:
    """The PIL image as RGB, turned as its EXIF data say.

    What is transparent gets a ground that the rest stands out from; channels of more than 8 bits are scaled.
    Needs Pillow, which whoever has a picture has.
    """
    from PIL import ImageOps

    return _rgb(ImageOps.exif_transpose(picture))


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
        ground = Image.new("RGBA", picture.size, (_ground(picture),) * 3 + (255,))
        picture = Image.alpha_composite(ground, picture)
    return picture.convert("RGB")


def _ground(picture: Any) -> int:
    """The grey from which most of what is visible stands out: white text on nothing is text as well."""
    alpha = picture.getchannel("A")
    if alpha.getextrema()[0] == 255:
        return _GROUNDS[0]
    counts = (
        picture.convert("RGB").convert("L").histogram(mask=alpha.point(lambda value: 255 * (value > 127)))
    )

    def seen(ground: int) -> int:
        return sum(count for grey, count in enumerate(counts) if abs(grey - ground) >= _VISIBLE_CONTRAST)

    return max(_GROUNDS, key=seen)
