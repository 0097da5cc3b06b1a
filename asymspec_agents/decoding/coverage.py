"""How much of two vocabularies, and of text, a map covers: what to look at before using a pair."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from .spelling import Speller, Vocabulary
from .vocab import VocabMap

__all__ = ["SAMPLE", "Coverage", "coverage"]

SAMPLE = """The committee reviewed 47 applications on 12 March 2024 and approved 9.5% of them; \
"unprecedented", said Dr. O'Neill, whose colleagues had expected roughly 1,250 submissions.

def total(prices: list[float], *, tax_rate: float = 0.19) -> float:
    \"\"\"The sum of all prices, tax included.\"\"\"
    return sum(price * (1 + tax_rate) for price in prices)

{"tool": "search_flights", "arguments": {"origin": "ZRH", "destination": "JFK", "max_price": 899.99}}

- See https://example.org/docs/getting-started#install, then run `pip install --upgrade example`.
Straßenbahnhaltestelle, café crème, año, żółć, Ångström; Москва и Київ; Ελλάδα; 東京で会いましょう。 \
你好,世界。 안녕하세요 שלום مرحبا नमस्ते 🙂👍🏽
"""
"""A text of the kinds that agents write, with a line of other languages."""

NUM_EXAMPLES = 8


@dataclass(frozen=True, slots=True)
class Coverage:
    """Shares in [0, 1]: of the vocabularies' ids that are mapped, and of a sample's tokens and bytes.

    `verifier_*` say which of the verifier's tokens the drafter can propose and steer; `drafter_*` which of
    the drafter's own it may still use. `roles` are the special tokens paired, by name. `unmapped` are
    examples of the verifier's ordinary tokens without a counterpart, lowest ids first: those of the sample,
    then others. `missing_bytes` are bytes that the drafter cannot spell, and reads as U+FFFD.
    """

    num_mapped: int
    verifier_ids: float
    verifier_tokens: float
    verifier_bytes: float
    drafter_ids: float
    drafter_tokens: float
    drafter_bytes: float
    roles: tuple[tuple[str, str], ...]
    unmapped: tuple[str, ...]
    missing_bytes: tuple[int, ...]


def coverage(vocab_map: VocabMap, verifier: Speller, drafter: Speller, sample: str = SAMPLE) -> Coverage:
    """What a map covers of its vocabularies and of a sample text, written in the tokens of each."""
    large, small = verifier.vocabulary, drafter.vocabulary
    mine, theirs = vocab_map.to_drafter, vocab_map.to_verifier
    written, read = verifier.ids(sample.encode()), drafter.ids(sample.encode())
    absent = itertools.chain(
        (token for token in sorted(set(written)) if token not in mine),
        (token for token, spelling in enumerate(large.spellings) if spelling and token not in mine),
    )
    ordinary = (large.spelling(token) for token in dict.fromkeys(absent) if token not in large.special)
    return Coverage(
        num_mapped=len(vocab_map),
        verifier_ids=_share(len(mine), _num_tokens(large)),
        verifier_tokens=_share(sum(token in mine for token in written), len(written)),
        verifier_bytes=_share(
            sum(len(large.spelling(t)) for t in written if t in mine), len(large.spelled(written))
        ),
        drafter_ids=_share(len(theirs), _num_tokens(small)),
        drafter_tokens=_share(sum(token in theirs for token in read), len(read)),
        drafter_bytes=_share(
            sum(len(small.spelling(t)) for t in read if t in theirs), len(small.spelled(read))
        ),
        roles=tuple(
            (large.spelling(token).decode(), small.spelling(own).decode())
            for token, own in mine.items()
            if token in large.special and own in small.special
        ),
        unmapped=tuple(
            spelling.decode(errors="backslashreplace")
            for spelling in itertools.islice(ordinary, NUM_EXAMPLES)
        ),
        missing_bytes=drafter.missing_bytes,
    )


def _num_tokens(vocabulary: Vocabulary) -> int:
    return sum(spelling is not None for spelling in vocabulary.spellings)


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
