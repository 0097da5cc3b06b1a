"""Functions over tensors of images [..., channels, height, width]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from torchvision.transforms import InterpolationMode

__all__ = ["InterpolationMode", "normalize", "pil_to_tensor", "resize"]


def pil_to_tensor(image: Any) -> Tensor:
    """The pixels [channels, height, width]."""
    pixels = torch.from_numpy(np.array(image, copy=True))
    return pixels[None] if pixels.ndim == 2 else pixels.permute(2, 0, 1).contiguous()


def resize(
    image: Tensor,
    size: Sequence[int],
    interpolation: InterpolationMode = InterpolationMode.BICUBIC,
    antialias: bool = True,
    **_: Any,
) -> Tensor:
    """The image with that height and width."""
    batch = image.reshape(-1, *image.shape[-3:]).float()
    resized = torch.nn.functional.interpolate(
        batch, size=tuple(size), mode=interpolation.value, antialias=antialias
    ).reshape(*image.shape[:-2], *size)
    return resized if image.is_floating_point() else resized.round().clamp(0, 255).to(image.dtype)


def normalize(image: Tensor, mean: Any, std: Any, inplace: bool = False) -> Tensor:
    """The image with that mean taken off each channel, over that deviation."""
    means, stds = (torch.as_tensor(values, dtype=image.dtype)[:, None, None] for values in (mean, std))
    return (image - means) / stds
