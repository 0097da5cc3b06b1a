"""The naive rule where the full view has images: transformers' own forward over ids and pixels."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import PreTrainedModel

from tests.engine.naive import Reader, Rows

from .oracle import Oracle
from .vision_models import NUM_VISION_IDS, Kind, vision_tokenizer

__all__ = ["Scene", "VisionOracle", "picture", "scene"]


def picture(seed: int, width: int, height: int) -> Image.Image:
    """A picture like no other."""
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@dataclass(frozen=True)
class Scene:
    """A full view: ids with the images' tokens, and what transformers' forward takes of the images.

    `written`: the ids as a template writes them, before a processor puts an image's tokens in their places.
    """

    ids: tuple[int, ...]
    images: tuple[Image.Image, ...] = ()
    pixels: Mapping[str, Any] = field(default_factory=dict)
    written: tuple[int, ...] = ()


def scene(kind: Kind, parts: Sequence[Sequence[int] | Image.Image]) -> Scene:
    """Token ids and pictures in their order, the latter as this kind's processor shows them."""
    images = tuple(part for part in parts if isinstance(part, Image.Image))
    if not images:
        return Scene(tuple(token for part in parts for token in part))  # type: ignore[union-attr]
    looked = kind.look(images)
    mark = vision_tokenizer().convert_tokens_to_ids(list(kind.mark))
    ids: list[int] = []
    written: list[int] = []
    shown = iter(looked.tokens)
    for part in parts:
        ids += next(shown) if isinstance(part, Image.Image) else part
        written += mark if isinstance(part, Image.Image) else part
    return Scene(tuple(ids), images, looked.pixels, tuple(written))


class _Seeing(Rows):
    """Rows of a drafter that looks at the images of one scene."""

    def __init__(self, module: PreTrainedModel, kind: Kind, of: Scene) -> None:
        super().__init__(module)
        self._kind, self._scene = kind, of

    @torch.inference_mode()
    def _forward(self, sequence: tuple[int, ...]) -> NDArray[np.float32]:
        ids = torch.tensor([sequence])
        inputs = {**self._scene.pixels, **self._kind.marks(ids)}
        logits: NDArray[np.float32] = self._module(input_ids=ids, use_cache=False, **inputs).logits[0].numpy()
        return logits


class VisionOracle(Oracle):
    """Judges answers to a scene and a compressed view of text."""

    def __init__(self, kind: Kind) -> None:
        super().__init__(*kind.modules(), NUM_VISION_IDS)
        self._kind = kind
        self._scene = Scene(())
        self._seeing: Rows | None = None

    def look(self, at: Scene) -> None:
        """The full view of the answers that are judged next."""
        self._scene = at
        self._seeing = _Seeing(self._drafter._module, self._kind, at)

    def _reader(self, rows: Rows, prompt: Sequence[int], tokens: Sequence[int]) -> Reader:
        if rows is self._drafter and self._scene.images and tuple(prompt) == self._scene.ids:
            assert self._seeing is not None
            rows = self._seeing
        return super()._reader(rows, prompt, tokens)


@functools.cache
def vision_oracle(kind: Kind) -> VisionOracle:
    """The oracle of that kind's pair."""
    return VisionOracle(kind)
