"""A full view with images as the worker knows it: its tokens' positions, which tokens stand for images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from .images import end_of

__all__ = ["SeenView", "Shown"]


@dataclass(slots=True)
class SeenView:
    """A full view with images. `positions` [dims, N] of its prompt, None where they are the tokens' places.

    `shift` is the position of a token behind the prompt less its place. `images`: those still to be read.
    """

    images: list[Any]
    positions: Tensor | None = None
    shift: int = 0

    def shown(self, start: int, stop: int, at: int) -> list[Shown]:
        """The parts of its images in tokens `start` to `stop`, which lie at `at` in a batch."""
        parts = []
        for image in self.images:
            first = image.mm_position.offset
            low, high = max(start, first), min(stop, end_of(image))
            if low < high:
                parts.append(Shown(image, at + low - start, low - first, high - first))
        return parts

    def forget(self, num_read: int) -> None:
        """Lets go of the images that lie in the first `num_read` tokens."""
        self.images = [image for image in self.images if end_of(image) > num_read]


@dataclass(frozen=True, slots=True)
class Shown:
    """Tokens `start` to `stop` of those that stand for an image, at `at` in a batch."""

    image: Any
    at: int
    start: int
    stop: int
