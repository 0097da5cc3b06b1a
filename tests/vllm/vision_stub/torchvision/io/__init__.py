"""Reading image files."""

from __future__ import annotations

import enum
import io

from PIL import Image
from torch import Tensor

from ..transforms.functional import pil_to_tensor

__all__ = ["ImageReadMode", "decode_image"]


class ImageReadMode(enum.Enum):
    """The kind of pixels, as Pillow names it."""

    RGB = "RGB"


def decode_image(data: Tensor, mode: ImageReadMode = ImageReadMode.RGB) -> Tensor:
    """The pixels [channels, height, width] of a file's bytes [n]."""
    return pil_to_tensor(Image.open(io.BytesIO(data.numpy().tobytes())).convert(mode.value))
