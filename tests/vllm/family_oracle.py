"""The naive rule for a drafter of another family: nothing cached, every prefix written anew in its tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.engine.naive import Reader, Rows, Vector

from .engines import Answer, Ask
from .family_models import Pair
from .oracle import Oracle, Seen

__all__ = ["FamilyOracle"]

NEVER = -1e4  # a log-probability whose exponential is 0, in place of -inf: the naive rule subtracts


@dataclass(frozen=True, slots=True)
class _Translated(Reader):
    """The drafter's rows behind a prompt in its own ids, over the verifier's."""

    pair: Pair

    def __call__(self, text: Sequence[int], vocab_size: int) -> Vector:
        written = self.pair.family.begin()
        written.push(text)
        vocab_map = self.pair.family.vocab_map
        logits = self.rows((*self.prompt, *written.tokens))[list(vocab_map.drafter_ids)]
        shifted = logits - logits.max()
        normal = np.full(vocab_size, NEVER)
        normal[list(vocab_map.verifier_ids)] = shifted - math.log(np.exp(shifted).sum())
        return normal


class FamilyOracle(Oracle):
    """Judges answers to views in the drafter's ids, and to a compressed one in the verifier's."""

    def __init__(self, pair: Pair) -> None:
        super().__init__(pair.verifier, pair.drafter, pair.family.num_ids)
        self._pair = pair
        self._compressed: Sequence[int] = ()

    def check_answer(self, ask: Ask, answer: Answer, seen: Seen) -> None:
        """Asserts that every token is the naive rule's."""
        assert ask.full is not None
        self._compressed = ask.compressed
        self.check(ask.full, ask.base, ask.parsed, answer.tokens, seen)

    def _reader(self, rows: Rows, prompt: Sequence[int], tokens: Sequence[int]) -> Reader:
        if rows is self._drafter:
            return _Translated(rows, tuple(prompt), self._pair)
        return super()._reader(rows, self._compressed, tokens)
