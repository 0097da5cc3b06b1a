"""Sampling for plain decoding: temperature, then top-p, then one draw. The speculative arms are greedy."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from transformers.generation.logits_process import TemperatureLogitsWarper, TopPLogitsWarper

from ..errors import ConfigurationError

__all__ = ["Sampler", "Sampling"]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a request draws its tokens: `top_p` 0 keeps only the best one, `seed` None differs each time."""

    temperature: float
    top_p: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.temperature < math.inf:
            raise ConfigurationError(f"temperature={self.temperature!r} must be a number above 0")
        if not 0 <= self.top_p <= 1:
            raise ConfigurationError(f"top_p={self.top_p!r} must be from 0 to 1")
        if self.seed is not None and not -(2**63) <= self.seed < 2**63:
            raise ConfigurationError(f"seed={self.seed!r} must be an integer of 64 bits")


class Sampler:
    """One request's draws, from a generator of its own: other requests never change them.

    It works on the host and in float64, where no temperature above 0 overflows.
    """

    def __init__(self, sampling: Sampling, vocab_size: int) -> None:
        self._warpers = (
            TemperatureLogitsWarper(float(sampling.temperature)),
            TopPLogitsWarper(sampling.top_p),
        )
        self._vocab_size = vocab_size
        self._generator = torch.Generator()
        if sampling.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(sampling.seed)

    def draw(self, logits: Tensor) -> int:
        """The next token id, from logits [1, 1, vocab] with at least one that is finite."""
        scores = logits[0, :, : self._vocab_size].float().cpu().double()  # [1, vocab]
        scores = scores - scores.max()  # a tiny temperature then sends the others to -inf, the best nowhere
        no_ids = torch.empty((1, 0), dtype=torch.long)  # neither warper looks at the text
        for warper in self._warpers:
            scores = warper(no_ids, scores)
        return int(torch.multinomial(scores.softmax(dim=-1), 1, generator=self._generator))
