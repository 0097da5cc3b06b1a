"""Limits of what a drafter that sees is shown, and of what is remembered of it."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import ConfigurationError
from ...pixels import MAX_SEEN_BYTES, MAX_SEEN_IMAGES, MAX_SEEN_PIXELS

__all__ = ["VisionOptions"]

MIB = 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionOptions:
    """Limits of one request's images; raises ConfigurationError.

    `max_images`: different images, however often each is shown. `max_image_pixels`: width times height of
    one, `max_image_bytes`: its file. `cache_bytes`: features of earlier images, and pixels between two steps
    of a request, each; an image that comes again elsewhere is then not read anew.
    """

    max_images: int = MAX_SEEN_IMAGES
    max_image_pixels: int = MAX_SEEN_PIXELS
    max_image_bytes: int = MAX_SEEN_BYTES
    cache_bytes: int = 256 * MIB

    def __post_init__(self) -> None:
        for name in ("max_images", "max_image_pixels", "max_image_bytes", "cache_bytes"):
            value = getattr(self, name)
            least = 0 if name == "cache_bytes" else 1
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise ConfigurationError(f"{name}={value!r} must be an integer of at least {least}")
