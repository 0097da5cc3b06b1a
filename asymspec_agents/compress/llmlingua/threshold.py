"""Which words of a chunk stay: those whose probability lies above a percentile of the chunk's tokens.

Section 3.3 of the paper, as the llmlingua package has it: a word's probability is the mean of its tokens';
each word counts as often as it has tokens of the reader's; the threshold is that percentile, interpolated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...tokens import TokenCounter
from .chunks import Chunk
from .words import Words

__all__ = ["Judged", "judge", "percentile_of_rate"]

NUM_COUNTED = 200_000  # words of which counts are remembered during one text


@dataclass(frozen=True, slots=True)
class Judged:
    """A chunk's words with the probability of each, and its weight in the threshold."""

    words: Words
    probabilities: NDArray[np.float32]
    weights: NDArray[np.int64]

    def kept(self, percentile: float) -> NDArray[np.bool_]:
        """Which words stay at a percentile from 0 to 100."""
        threshold = np.percentile(np.repeat(self.probabilities, self.weights), percentile)
        if threshold == 1:  # certain words stay, however many they are
            return self.probabilities >= threshold
        return self.probabilities > threshold


def judge(
    chunks: Sequence[Chunk], scores: Sequence[NDArray[np.float32]], counter: TokenCounter
) -> list[Judged]:
    """Every chunk's words with their probabilities, from those of its tokens.

    A word that the tokenizer has no piece for is judged by its own score, and does not move the threshold.
    """
    counted: dict[str, int] = {}

    def weight(written: str) -> int:
        if not written:
            return 0
        found = counted.get(written)
        if found is None:
            found = max(counter.count(written), 1)
            if len(counted) < NUM_COUNTED:
                counted[written] = found
        return found

    judged = []
    for chunk, of_tokens in zip(chunks, scores, strict=True):
        counts = chunk.word_of >= 0
        places = chunk.word_of[counts]
        sums = np.zeros(len(chunk.words), np.float32)
        np.add.at(sums, places, of_tokens[counts])
        numbers = np.bincount(places, minlength=len(chunk.words))
        means: NDArray[np.float32] = np.divide(sums, numbers, dtype=np.float32, casting="unsafe")
        weights = np.array([weight(written) for written in chunk.words.written], np.int64)
        if not weights.any():
            weights += 1
        judged.append(Judged(chunk.words, means, weights))
    return judged


def percentile_of_rate(rate: float) -> int | None:
    """The percentile that llmlingua takes for a rate (the share of tokens to keep); None keeps everything."""
    reduced = max(0.0, 1 - rate)
    return min(int(100 * reduced + 1), 100) if reduced > 0 else None
