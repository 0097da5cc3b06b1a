"""The older interface."""

from __future__ import annotations

from PIL import Image
from torch import Tensor

from .v2.functional import pil_to_tensor

__all__ = ["pil_to_tensor", "to_pil_image"]


def to_pil_image(image: Tensor) -> Image.Image:
    """The image of 8-bit pixels [channels, height, width]."""
    pixels = image.permute(1, 2, 0).numpy()
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)
