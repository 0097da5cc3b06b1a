"""The independent side: transformers' own model reads the whole sequence and all pixels at once, uncached."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from transformers import AutoConfig, AutoImageProcessor, AutoModelForImageTextToText

from tests.engine.naive import Rows

__all__ = ["Oracle", "SeeingRows"]


class Oracle:
    """A vision-language model of a folder, loaded anew, with eager attention and its own image processor."""

    def __init__(self, folder: Path) -> None:
        self.config = AutoConfig.from_pretrained(folder)
        self.processor: Any = AutoImageProcessor.from_pretrained(folder)
        self.module: Any = AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager"
        ).eval()
        self._memo: dict[tuple[int, ...], tuple[Any, dict[str, torch.Tensor]]] = {}

    def pixels(self, images: tuple[Image.Image, ...]) -> dict[str, torch.Tensor]:
        """What the image processor makes of all the images together."""
        key = tuple(map(id, images))
        if key not in self._memo:
            self._memo[key] = (images, self._pixels(images))  # kept, so that the ids stay theirs
        return self._memo[key][1]

    def _pixels(self, images: tuple[Image.Image, ...]) -> dict[str, torch.Tensor]:
        tiled = self.config.model_type in ("idefics3", "smolvlm")
        made = self.processor(images=[list(images)] if tiled else list(images), return_tensors="pt")
        return {name: tensor for name, tensor in made.items() if isinstance(tensor, torch.Tensor)}

    @torch.inference_mode()
    def logits(self, ids: Sequence[int], images: tuple[Image.Image, ...]) -> torch.Tensor:
        """Logits of every position, [n, vocab]; ids hold the image token for each row of an image."""
        row = torch.tensor([list(ids)])
        more = self.pixels(images) if images else {}
        if images and "qwen" in self.config.model_type:
            more = {**more, "mm_token_type_ids": (row == self.config.image_token_id).int()}
        logits: torch.Tensor = self.module(input_ids=row, use_cache=False, **more).logits[0]
        return logits

    def real(self, ids: Sequence[int]) -> list[int]:
        """The ids with the image token in place of virtual ones."""
        return [self.config.image_token_id if token < 0 else token for token in ids]


class SeeingRows(Rows):
    """Next-token logits behind a prompt that shows the images."""

    def __init__(self, oracle: Oracle, images: tuple[Image.Image, ...]) -> None:
        super().__init__(oracle.module)
        self._oracle, self._images = oracle, images

    def _forward(self, sequence: tuple[int, ...]) -> NDArray[np.float32]:
        logits: NDArray[np.float32] = self._oracle.logits(sequence, self._images).numpy()
        return logits
