"""A pair whose models have different vocabularies: what the engine needs to let them work together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from transformers import PreTrainedTokenizerBase

from ..decoding.spelling import Vocabulary
from ..decoding.transcript import Transcriber
from ..decoding.translation import Translation
from ..decoding.vocab import VocabMap
from ..decoding.vocab_file import load_map
from ..protocol import CrossFamilyReport
from .cache import KVCache
from .foreign import ForeignView
from .model import CausalModel
from .view import View

__all__ = ["CrossFamily", "MapChoice", "choose_map"]

MapChoice = Literal["auto"] | str | Path | VocabMap


@dataclass(frozen=True, slots=True)
class CrossFamily:
    """The drafter's own tokenizer, and the ways between its tokens and the verifier's.

    `vocab_size` is the number of its ids that count. `eos_token_ids` are the verifier's ids that end an
    answer: its own, and the counterparts of those that end one of the drafter's.
    """

    tokenizer: PreTrainedTokenizerBase
    vocab_size: int
    transcriber: Transcriber
    translation: Translation
    eos_token_ids: frozenset[int]

    @classmethod
    def of(
        cls,
        transcriber: Transcriber,
        verifier: CausalModel,
        drafter: CausalModel,
        tokenizer: PreTrainedTokenizerBase,
    ) -> CrossFamily:
        """What two loaded models need; `tokenizer` is the drafter's."""
        vocab_map = transcriber.vocab_map
        num_ids = min(len(transcriber.verifier), verifier.vocab_size)
        num_own = min(len(transcriber.drafter), drafter.vocab_size)
        to_verifier = vocab_map.to_verifier
        ends = {to_verifier[token] for token in drafter.eos_token_ids if token in to_verifier}
        return cls(
            tokenizer=tokenizer,
            vocab_size=num_own,
            transcriber=transcriber,
            translation=Translation(vocab_map, num_ids, num_own, drafter.device),
            eos_token_ids=verifier.eos_token_ids | ends,
        )

    def view(self, drafter: CausalModel, prompt: Sequence[int], cache: KVCache) -> View:
        """The drafter's reading of a prompt in its own ids, for a block loop in the verifier's."""
        return ForeignView(drafter, prompt, cache, self.transcriber, self.translation)

    def report(self, view: View) -> CrossFamilyReport:
        """What the drafting view, one of `view`, went through."""
        vocab_map = self.transcriber.vocab_map
        transcript = view.transcript if isinstance(view, ForeignView) else self.transcriber.begin()
        return CrossFamilyReport(
            mapped_tokens=self.translation.num_mapped,
            verifier_coverage=self.translation.num_mapped / self.translation.vocab_size,
            drafter_coverage=self.translation.num_mapped / vocab_map.drafter_size,
            respelled=transcript.num_respelled,
            reread=transcript.num_replaced,
        )


def choose_map(choice: MapChoice, verifier: Vocabulary, drafter: Vocabulary) -> VocabMap:
    """The map that was asked for: made now, read from a file, or given.

    Raises ConfigurationError for a file that holds none, IncompatibleModelsError where it is one of other
    vocabularies or nothing can be mapped.
    """
    if choice == "auto":
        return VocabMap.build(verifier, drafter)
    vocab_map = choice if isinstance(choice, VocabMap) else load_map(choice)
    vocab_map.check(verifier, drafter)
    return vocab_map
