"""A drafter without a model: its pool holds token ids, its logits are a function of the sequence it finds.

Whatever is read from the wrong block, left unwritten or written over changes the sequence, and so the logits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from vllm_asymspec.rows import Rows

__all__ = ["LOGITS_SIZE", "VOCAB", "PaperDrafter", "logits_of"]

VOCAB = 19
LOGITS_SIZE = 24  # padded; the padding would win every argmax


def logits_of(model: str, sequence: Sequence[int]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """The next token's logits: much of them shared by all models and views that end alike."""
    shared = np.random.default_rng([7, *sequence[-2:]]).normal(scale=1.5, size=LOGITS_SIZE)
    own = np.random.default_rng([len(model), ord(model[0]), *sequence]).normal(scale=0.9, size=LOGITS_SIZE)
    logits = np.asarray(shared + own, dtype=np.float32).astype(np.float64)
    logits[VOCAB:] = 50.0
    return logits


class PaperDrafter:
    """Reads rows as a drafter does; `max_tokens` bounds a forward. It sees no images."""

    sight = None

    def __init__(self, num_blocks: int, block_size: int, max_tokens: int) -> None:
        self.pool = torch.full((num_blocks * block_size,), -1, dtype=torch.int64)
        self.block_size = block_size
        self.max_tokens = max_tokens
        self.num_forwards = 0
        self._sequences: list[tuple[int, ...]] = []

    def read(self, rows: Rows) -> Tensor:
        """The index of each new token's sequence, as hidden states [N, 1]."""
        self.num_forwards += 1
        assert len(rows.tokens) == len(rows.positions) == len(rows.places) == rows.query_lens.sum()
        assert len(rows.tokens) <= self.max_tokens or (rows.query_lens <= 2).all()
        assert (rows.lengths.numpy() <= rows.length_bounds).all()
        self.pool[rows.places] = rows.tokens
        found = []
        new = 0
        for row, num_new in enumerate(rows.query_lens.tolist()):
            length = int(rows.lengths[row])
            where = torch.arange(length)
            blocks = rows.tables[row].long()[where // self.block_size]
            sequence = self.pool[blocks * self.block_size + where % self.block_size].tolist()
            for j in range(num_new):
                end = length - num_new + j + 1
                assert int(rows.positions[new]) == end - 1
                found.append(tuple(sequence[:end]))
                new += 1
        start = len(self._sequences)
        self._sequences += found
        return torch.arange(start, start + len(found), dtype=torch.float64)[:, None]

    def logits(self, hidden: Tensor) -> Tensor:
        """[n, LOGITS_SIZE] fp32."""
        rows = []
        for index in hidden[:, 0].long().tolist():
            sequence = self._sequences[index]
            bad = min(sequence) < 0  # something it should have read was never written
            rows.append(np.full(LOGITS_SIZE, math.nan) if bad else logits_of("drafter", sequence))
        return torch.from_numpy(np.array(rows, dtype=np.float32))
