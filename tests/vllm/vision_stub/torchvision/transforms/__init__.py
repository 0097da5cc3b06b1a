"""The names of interpolations."""

from __future__ import annotations

import enum

__all__ = ["InterpolationMode"]


class InterpolationMode(enum.Enum):
    """As torchvision names them."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"
