"""A pair whose models have different vocabularies: how either reads what the other writes.

The drafter reads both views in tokens of its own, and behind them the answer, in which a token of the
verifier's is its counterpart or, without one, spelled. Scheduler and worker each keep that transcript: it is
a function of the emitted tokens alone, so both come to the same (see asymspec_agents.decoding.transcript).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from asymspec_agents.decoding.spelling import REPLACEMENT, Speller, Vocabulary
from asymspec_agents.decoding.transcript import MAX_TAIL_BYTES, Transcriber, Transcript
from asymspec_agents.decoding.vocab import VocabMap
from asymspec_agents.decoding.vocab_file import load_map

__all__ = ["AUTO", "Family"]

AUTO = "auto"


@dataclass(frozen=True, slots=True)
class Family:
    """What lets a drafter of another family take part.

    `num_ids` and `vocab_size`: how many ids of the verifier, and of the drafter, count; `num_mapped` of them
    are paired. `end_ids`: tokens of the verifier whose counterparts end an answer of the drafter's.
    `max_growth`: the most tokens by which one emitted token lengthens the drafter's views.
    """

    transcriber: Transcriber
    tokenizer: Any
    num_ids: int
    vocab_size: int
    num_mapped: int
    end_ids: frozenset[int]
    max_growth: int

    @classmethod
    def of(
        cls,
        choice: str,
        verifier: Vocabulary,
        drafter: Vocabulary,
        tokenizer: Any,
        *,
        num_logits: tuple[int, int],
        drafter_end_ids: Iterable[int],
    ) -> Family:
        """The pair with the map that was chosen, made now or read from a file; `tokenizer` is the drafter's.

        `num_logits` of verifier and drafter, padding included. Raises ConfigurationError for a file that
        holds no map, IncompatibleModelsError for one of other vocabularies or where nothing can be mapped.
        """
        vocab_map = VocabMap.build(verifier, drafter) if choice == AUTO else load_map(choice)
        transcriber = Transcriber(vocab_map, verifier, Speller(tokenizer, drafter))
        num_ids, vocab_size = min(len(verifier), num_logits[0]), min(len(drafter), num_logits[1])
        to_verifier = vocab_map.to_verifier
        return cls(
            transcriber=transcriber,
            tokenizer=tokenizer,
            num_ids=num_ids,
            vocab_size=vocab_size,
            num_mapped=sum(mine < num_ids and own < vocab_size for own, mine in to_verifier.items()),
            end_ids=frozenset(to_verifier[token] for token in drafter_end_ids if token in to_verifier),
            max_growth=_max_growth(transcriber),
        )

    @property
    def vocab_map(self) -> VocabMap:
        """The map between both vocabularies."""
        return self.transcriber.vocab_map

    def begin(self) -> Transcript:
        """The transcript of an answer that has no tokens yet."""
        return self.transcriber.begin()

    def report(self, transcript: Transcript) -> dict[str, Any]:
        """The fields of CrossFamilyReport for an answer with this transcript."""
        return {
            "mapped_tokens": self.num_mapped,
            "verifier_coverage": self.num_mapped / self.num_ids,
            "drafter_coverage": self.num_mapped / self.vocab_map.drafter_size,
            "respelled": transcript.num_respelled,
            "reread": transcript.num_replaced,
        }


def _max_growth(transcriber: Transcriber) -> int:
    """A token without a counterpart is spelled anew with the end of what stands before it, at worst a byte a
    token; in the place of a byte that the drafter doesn't have stands a replacement character."""
    missing = frozenset(transcriber.speller.missing_bytes)
    mark = len(REPLACEMENT.encode())

    def most(spelling: bytes) -> int:
        return sum(mark if byte in missing else 1 for byte in spelling)

    unmapped = (
        most(spelling)
        for token, spelling in enumerate(transcriber.verifier.spellings)
        if spelling and token not in transcriber.to_drafter
    )
    longest = max(unmapped, default=0)
    return longest and longest + MAX_TAIL_BYTES * (mark if missing else 1)
