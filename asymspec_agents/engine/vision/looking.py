"""An image as it stands in a drafter's prompt, found again by its content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from ...errors import MessageError
from .kinds import Kind
from .options import VisionOptions
from .picture import Picture, pixels
from .remembered import Remembered

__all__ = ["Layout", "Look", "Looker", "virtual_ids"]

LAYOUT_BYTES = 32 * 1024**2  # of ids: enough for thousands of images
ID_BYTES = 64  # a Python integer in a tuple


@dataclass(frozen=True, slots=True)
class Layout:
    """What an image takes in a prompt: `ids` stand for it, a negative one for each row of its features.

    Negative ids follow from the image's content, so that only the same image in the same place is found in a
    prefix cache. `grid`: see `Stand`.
    """

    ids: tuple[int, ...]
    num_rows: int
    grid: tuple[int, int] | None


@dataclass(frozen=True, slots=True)
class Look:
    """An image and its layout."""

    picture: Picture = field(repr=False)
    layout: Layout


def virtual_ids(digest: str, count: int) -> tuple[int, ...]:
    """`count` negative ids, each of 63 bits that follow from the digest and its place."""
    stream = hashlib.shake_256(digest.encode()).digest(8 * count)
    return tuple((np.frombuffer(stream, dtype="<i8") | np.int64(-(2**63))).tolist())


class Looker:
    """Looks at pictures through a model's own image processor; thread-safe.

    A picture is decoded and processed when it is first met, so that what is wrong with it is known before a
    model runs. Its pixels are kept for the tower, within `cache_bytes`.
    """

    def __init__(
        self, kind: Kind, processor: Any, tokenizer: PreTrainedTokenizerBase, options: VisionOptions
    ) -> None:
        self.kind = kind
        self.options = options
        self._processor = processor
        self._tokenizer = tokenizer
        self._layouts: Remembered[Layout] = Remembered(LAYOUT_BYTES)
        self._inputs: Remembered[Mapping[str, Tensor]] = Remembered(options.cache_bytes)

    def look(self, picture: Picture) -> Look:
        """What stands for the picture. Raises MessageError for one that cannot be read."""
        layout = self._layouts.get(picture.digest)
        if layout is not None:
            return Look(picture, layout)
        inputs = self._process(picture)
        stand = self.kind.stand(inputs)
        ids: list[int] = self._tokenizer.encode(stand.text, add_special_tokens=False)
        num_rows = ids.count(self.kind.image_token_id)
        rows = iter(virtual_ids(picture.digest, num_rows))
        placed = tuple(next(rows) if token == self.kind.image_token_id else token for token in ids)
        layout = Layout(placed, num_rows, stand.grid)
        self._layouts.put(picture.digest, layout, len(placed) * ID_BYTES)
        self._inputs.put(picture.digest, inputs, _num_bytes(inputs))
        return Look(picture, layout)

    def inputs(self, look: Look) -> Mapping[str, Tensor]:
        """What the tower reads, which is not kept any longer: the tower runs once."""
        kept = self._inputs.take(look.picture.digest)
        return kept if kept is not None else self._process(look.picture)

    def processed(self, image: Any) -> Mapping[str, Tensor]:
        """What the tower reads of an RGB image; raises ValueError for one that the processor refuses."""
        return self.kind.inputs(self._processor, image)

    def _process(self, picture: Picture) -> Mapping[str, Tensor]:
        image = pixels(picture, self.options)
        try:
            return self.processed(image)
        except ValueError as error:  # families have limits of their own
            raise MessageError(
                f"{picture.place}: the drafter's image processor refuses the image: {error}"
            ) from error


def _num_bytes(inputs: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in inputs.values())
