"""A drafter's logits and the drafts made of them, between two vocabularies, on the device.

Read through a map, the drafter has an opinion of the tokens that have a counterpart and of no others: all
else is -inf. So log-softmax normalises a and b over the mapped tokens, argmax drafts only those, and delta
`context` is zero at the rest, by the one rule of `rule`, which needs not know.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .vocab import VocabMap

__all__ = ["Translation"]


class Translation:
    """The tensors of a map. `vocab_size` ids of the verifier count, `drafter_size` ids of the drafter's.

    Of padded vocabularies the smaller of model and tokenizer is meant; pairs beyond it are left out.
    """

    def __init__(
        self, vocab_map: VocabMap, vocab_size: int, drafter_size: int, device: torch.device | str = "cpu"
    ) -> None:
        self.vocab_size = vocab_size
        pairs = torch.tensor([vocab_map.verifier_ids, vocab_map.drafter_ids], dtype=torch.long)
        pairs = pairs[:, (pairs[0] < vocab_size) & (pairs[1] < drafter_size)]
        own = torch.zeros(vocab_size, dtype=torch.long)
        own[pairs[0]] = pairs[1]
        unmapped = torch.ones(vocab_size, dtype=torch.bool)
        unmapped[pairs[0]] = False
        self.num_mapped = pairs.shape[1]
        self._own = own.to(device)  # [vocab], 0 where there is none
        self._unmapped = unmapped.to(device)  # [vocab]

    def logits(self, drafter: Tensor) -> Tensor:
        """The drafter's logits [..., drafter vocab] over the verifier's ids: [..., vocab_size]."""
        return drafter.index_select(-1, self._own).masked_fill(self._unmapped, -math.inf)

    def ids(self, drafts: Tensor) -> Tensor:
        """The drafter's ids of drafts that are the verifier's, of any shape; each must have a counterpart."""
        return self._own[drafts]
