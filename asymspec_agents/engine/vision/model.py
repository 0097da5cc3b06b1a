"""A drafter with a vision tower: it reads texts like any model, and images where a prompt shows them.

The text model is called with embeddings and positions of our own making, so that a prompt can be read in
pieces, an image's rows among them, and nothing of it stays in the module between two calls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel

from ...errors import IncompatibleModelsError
from ..cache import KVCache
from ..model import CausalModel
from ..packed import PackedCache
from .kinds import Features
from .looking import Look, Looker
from .remembered import Remembered
from .sight import Sight

__all__ = ["SeeingModel"]


class SeeingModel(CausalModel):
    """A vision-language model as drafter. `num_seen` counts the runs of its tower, one for each new image.

    Features are remembered within the options' `cache_bytes`; those of the image whose rows are just being
    read are kept until its last one.
    """

    sees: ClassVar[bool] = True

    def __init__(self, module: Any, name: str, looker: Looker) -> None:
        self.looker = looker
        self.num_seen = 0
        self._features: Remembered[Features] = Remembered(looker.options.cache_bytes)
        self._held: tuple[str, Features] | None = None
        self._ends: tuple[int, list[int]] | None = None
        self._embedding: Any = module.get_input_embeddings()
        self._head: Any = module.get_output_embeddings()
        super().__init__(module, name)

    @staticmethod
    def _decoder(module: Any) -> PreTrainedModel:
        decoder: PreTrainedModel = module.get_decoder()
        return decoder

    @property
    def _takes_packed_rows(self) -> bool:
        return True

    def end_with(self, end: int, vocab_size: int) -> None:
        """Makes `end` the token that ends an answer where the drafter's own ends lie beyond `vocab_size`.

        A family's vision-language models may end turns with a token that its text models do not have; what
        they give to it is then given to `end`, so that both models speak of one end.
        """
        own = sorted(token for token in self.eos_token_ids if token >= vocab_size)
        if own:
            self._ends = (end, own)
            self.eos_token_ids |= {end}

    def features(self, look: Look) -> Features:
        """The tower's output for an image, on the model's device; raises what makes it unreadable."""
        digest = look.picture.digest
        if self._held is not None and self._held[0] == digest:
            return self._held[1]
        features = self._features.get(digest)
        if features is None:
            features = self._encode(self.looker.inputs(look), look.layout.num_rows)
            self.num_seen += 1
            self._features.put(digest, features, features.num_bytes)
        self._held = (digest, features)
        return features

    @torch.inference_mode()
    def try_tower(self, inputs: Mapping[str, Tensor]) -> None:
        """Raises IncompatibleModelsError unless the tower makes of an image what stands for it in prompts."""
        kind = self.looker.kind
        self._encode(inputs, kind.stand(inputs).text.count(kind.image_token))

    def _encode(self, inputs: Mapping[str, Tensor], num_rows: int) -> Features:
        there = {name: tensor.to(self.device) for name, tensor in inputs.items()}
        features = self.looker.kind.features(self.module, there)
        shape = tuple(features.rows.shape)
        if shape != (num_rows, self._embedding.embedding_dim):
            raise IncompatibleModelsError(
                f"{self.name}: its tower makes features of shape {shape} of an image that takes {num_rows} "
                "tokens; the image processor is another model's"
            )
        return features

    def _logits(self, ids: Tensor, cache: KVCache, num_logits: int, sight: Sight | None) -> Tensor:
        hidden = self._hidden([ids], [cache], [sight], cache)
        return self._scores(hidden[:, hidden.shape[1] - num_logits :])

    def _packed_logits(
        self,
        ids: Sequence[Tensor],
        caches: Sequence[KVCache],
        sights: Sequence[Sight | None],
        ends: Tensor,
    ) -> Tensor:
        packed = PackedCache(caches, [piece.shape[1] for piece in ids])
        return self._scores(self._hidden(ids, caches, sights, packed)[:, ends])

    def _scores(self, hidden: Tensor) -> Tensor:
        """Logits [1, n, vocab] of hidden states [1, n, width]."""
        logits: Tensor = self._head(hidden)
        if self._ends is not None:
            end, own = self._ends
            logits[..., end] = logits[..., [end, *own]].logsumexp(dim=-1)
        return logits

    def _hidden(
        self, ids: Sequence[Tensor], caches: Sequence[KVCache], sights: Sequence[Sight | None], past: Any
    ) -> Tensor:
        """The last hidden states of all pieces in one row: [1, n, width]."""
        row = torch.cat(list(ids), dim=1)
        embeddings = self._embedding(row.clamp(min=0))
        shown = torch.zeros(row.shape, dtype=torch.bool)
        inner: list[tuple[Tensor, ...]] = []
        positions = []
        begin = 0
        for piece, cache, sight in zip(ids, caches, sights, strict=True):
            start, count = cache.length, piece.shape[1]
            for seen in sight.seen(start, start + count) if sight is not None else ():
                features = self.features(seen.look)
                rows = slice(seen.first, seen.first + seen.stop - seen.start)
                places = slice(begin + seen.start - start, begin + seen.stop - start)
                embeddings[:, places] = features.rows[rows].to(embeddings.dtype)
                shown[:, places] = True
                inner.append(tuple(layer[rows] for layer in features.inner))
                if seen.is_last:
                    self._held = None
            positions.append(self._positions(sight, start, count))
            begin += count
        extra: dict[str, Any] = {self._cache_name: past}
        if inner and inner[0]:
            extra["visual_pos_masks"] = shown.to(self.device)
            extra["deepstack_visual_embeds"] = [torch.cat(layer) for layer in zip(*inner, strict=True)]
        hidden: Tensor = self.decoder(
            inputs_embeds=embeddings,
            position_ids=torch.cat(positions, dim=-1).to(self.device),
            use_cache=True,
            **extra,
        ).last_hidden_state
        return hidden

    def _positions(self, sight: Sight | None, start: int, count: int) -> Tensor:
        """[1, count], or [3, 1, count] where positions have a grid."""
        plain = np.arange(start, start + count)[None]
        numbers = torch.from_numpy(sight.positions(start, count) if sight is not None else plain)
        return numbers.expand(3, -1)[:, None] if self.looker.kind.has_grid_positions else numbers
