"""How a drafter with a vision tower sees the images of its full views.

The tower runs once for each image as long as its result is kept, whoever sends the image: results are known
by the hash of the content. They are needed only while the tokens that stand for the image are read; what is
kept of it afterwards is their keys and values, so losing a result costs time and nothing else.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from .compat_worker import group_and_batch_mm_kwargs, supports_mrope
from .seen import SeenView, Shown
from .wire_args import unpack_ids

__all__ = ["Sight"]


class Sight:
    """The vision tower of a drafter, and what it made of the images seen last, up to `max_bytes`."""

    def __init__(self, model: Any, device: torch.device, max_bytes: int) -> None:
        self._model = model
        self._device = device
        self._max_bytes = max_bytes
        self._outputs: OrderedDict[str, Tensor] = OrderedDict()
        self._num_bytes = 0
        self.num_runs = 0  # images the tower looked at

    def view(self, ids: bytes, images: Sequence[Any]) -> SeenView:
        """A full view's positions; `ids` as `pack_ids` packs them."""
        if not supports_mrope(self._model):
            return SeenView(list(images))
        positions, shift = self._model.get_mrope_input_positions(unpack_ids(ids).tolist(), list(images))
        return SeenView(list(images), positions.long(), int(shift))

    def embed(self, tokens: Tensor, shown: Sequence[Shown]) -> Tensor:
        """The embeddings [N, hidden] of a batch's tokens, with the images' own where they stand."""
        outputs = self._look({part.image.identifier: part.image for part in shown}.values())
        rows = []
        is_image = torch.zeros(len(tokens), dtype=torch.bool)  # on the host: else it would be read back
        for part in shown:
            place = part.image.mm_position
            first, last = place.get_embeds_indices_in_range(part.start, part.stop)
            if first < last:
                rows.append(outputs[part.image.identifier][first:last])
                here = True if place.is_embed is None else place.is_embed[part.start : part.stop]
                is_image[part.at : part.at + part.stop - part.start] = here
        named = {"multimodal_embeddings": rows, "is_multimodal": is_image} if rows else {}
        embeddings: Tensor = self._model.embed_input_ids(tokens, **named)
        return embeddings

    def _look(self, images: Iterable[Any]) -> dict[str, Tensor]:
        """What the tower makes of these images, [tokens, width] each."""
        found: dict[str, Tensor] = {}
        unseen = []
        for image in images:
            if image.identifier in self._outputs:
                found[image.identifier] = self._outputs[image.identifier]
            else:
                unseen.append(image)
        for image, output in zip(unseen, self.run(unseen), strict=True):
            # A copy: a slice would keep all that was computed with it.
            found[image.identifier] = output.clone()
        for name, output in found.items():
            self._keep(name, output)
        return found

    def run(self, images: Sequence[Any]) -> list[Tensor]:
        """Runs the tower over images of one modality."""
        outputs: list[Tensor] = []
        for _, _, batch in group_and_batch_mm_kwargs(
            [(image.modality, image.data) for image in images], device=self._device
        ):
            outputs.extend(self._model.embed_multimodal(**batch))
        self.num_runs += len(images)
        return outputs

    def _keep(self, name: str, output: Tensor) -> None:
        if name in self._outputs:
            self._outputs.move_to_end(name)
            return
        self._outputs[name] = output
        self._num_bytes += output.nbytes
        while self._num_bytes > self._max_bytes and len(self._outputs) > 1:
            _, oldest = self._outputs.popitem(last=False)
            self._num_bytes -= oldest.nbytes
