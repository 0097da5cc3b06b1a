"""An image of a request: its bytes, known by their hash, and their pixels, within limits."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

from ...errors import MessageError, MissingDependencyError
from ...pixels import MAX_ASPECT_RATIO, is_too_narrow, upright_rgb
from ...store import content_hash
from .options import VisionOptions

__all__ = ["FORMATS", "Picture", "pixels"]

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")  # no other decoder is ever started on somebody's bytes


@dataclass(frozen=True, slots=True)
class Picture:
    """An image's file by its content; `place` says in errors where it stands."""

    data: bytes = field(repr=False)
    digest: str
    place: str = "image"

    @classmethod
    def of(cls, data: bytes, place: str = "image") -> Picture:
        """The picture of these bytes, which are not decoded yet."""
        return cls(data, content_hash(data), place)


def pixels(picture: Picture, options: VisionOptions) -> Any:
    """The picture as an upright, opaque RGB image of PIL; of an animation the first frame.

    Its size is read from the header and checked before anything is decoded. Raises MessageError, naming the
    picture's place, for what is too large, too narrow, broken, or of a format that is not read;
    MissingDependencyError without Pillow.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        raise MissingDependencyError("pillow", "images") from error
    if len(picture.data) > options.max_image_bytes:
        raise MessageError(
            f"{picture.place}: the image has {len(picture.data):,} bytes, over the limit of "
            f"max_image_bytes={options.max_image_bytes:,}"
        )
    too_large = f"{picture.place}: the image has %s pixels, over the limit of %s; send a smaller one"
    limit = f"max_image_pixels={options.max_image_pixels:,}"
    try:
        with Image.open(io.BytesIO(picture.data), formats=FORMATS) as opened:
            width, height = opened.size
            if width * height > options.max_image_pixels:
                raise MessageError(too_large % (f"{width:,}×{height:,}", limit))
            if is_too_narrow(width, height):
                raise MessageError(
                    f"{picture.place}: the image has {width:,}×{height:,} pixels; its longer side may be at "
                    f"most {MAX_ASPECT_RATIO} times its shorter one"
                )
            opened.load()
            return upright_rgb(opened)
    except (MessageError, MemoryError):
        raise
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise MessageError(too_large % ("far too many", limit)) from error
    except UnidentifiedImageError as error:
        raise MessageError(
            f"{picture.place}: the data are no image of a format that is read ({', '.join(FORMATS)})"
        ) from error
    except Exception as error:  # each format's decoder has its own
        raise MessageError(f"{picture.place}: the image is broken or cut short") from error
