"""The map between two vocabularies: which token of the one is which of the other.

Source: AsymSpec (arXiv 2608.26004), the cross-family pairs. Tokens that spell the same bytes are one; special
tokens are paired by what they do, as their names differ from family to family.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ..errors import ConfigurationError, IncompatibleModelsError, UnsupportedRequestError
from .modes import Rule
from .spelling import Vocabulary

__all__ = ["MAPPED_DELTAS", "VocabMap", "check_rule"]

MAPPED_DELTAS = ("context", "none")
"""The deltas a map can serve: the others weigh tokens of the verifier that the drafter cannot."""

ANOTHER_MAP = 'build it anew, or use vocab_map="auto"'


@dataclass(frozen=True)
class VocabMap:
    """Pairs of token ids, one to one: `verifier_ids[i]`, ascending, is `drafter_ids[i]` of the drafter.

    Sizes are those of the vocabularies it was made of, fingerprints tell them from others.
    """

    verifier_ids: tuple[int, ...] = field(repr=False)
    drafter_ids: tuple[int, ...] = field(repr=False)
    verifier_size: int
    drafter_size: int
    verifier_fingerprint: str
    drafter_fingerprint: str
    verifier_name: str = ""
    drafter_name: str = ""

    def __post_init__(self) -> None:
        if len(self.verifier_ids) != len(self.drafter_ids):
            raise ConfigurationError(
                f"a vocabulary map pairs {len(self.verifier_ids):,} ids of the verifier with "
                f"{len(self.drafter_ids):,} of the drafter; the numbers must be the same"
            )
        for role, ids, size in (
            ("verifier", self.verifier_ids, self.verifier_size),
            ("drafter", self.drafter_ids, self.drafter_size),
        ):
            wrong = next((number for number in ids if not 0 <= number < size), None)
            if wrong is not None:
                raise ConfigurationError(
                    f"a vocabulary map names id {wrong} of the {role}, which has {size:,} ids"
                )
            if len(set(ids)) != len(ids):
                raise ConfigurationError(f"a vocabulary map pairs an id of the {role} twice")
        if list(self.verifier_ids) != sorted(self.verifier_ids):
            raise ConfigurationError("a vocabulary map must list the verifier's ids in ascending order")

    @classmethod
    def build(cls, verifier: Vocabulary, drafter: Vocabulary) -> VocabMap:
        """The map of two vocabularies.

        First the end of a turn and the end of a text are paired, then special tokens of the same name and
        ordinary tokens of the same bytes. Where several of one vocabulary spell the same, the lowest ids are
        paired in their order, named bytes last, and the rest stays without a counterpart. The same vocabulary
        twice gives the identity. Raises IncompatibleModelsError where no ordinary token is in both.
        """
        pairs = dict(_roles(verifier, drafter))
        taken = set(pairs.values())
        theirs: dict[tuple[bool, bytes], list[int]] = defaultdict(list)
        for number in _in_order(drafter):
            if number not in taken:
                theirs[number in drafter.special, drafter.spelling(number)].append(number)
        free = {key: iter(numbers) for key, numbers in theirs.items()}
        num_ordinary = 0
        for number in _in_order(verifier):
            if number not in pairs:
                key = number in verifier.special, verifier.spelling(number)
                counterpart = next(free.get(key, iter(())), None)
                if counterpart is not None:
                    pairs[number] = counterpart
                    num_ordinary += number not in verifier.special
        if not num_ordinary:
            raise IncompatibleModelsError(f"{verifier.name} and {drafter.name} have no token in common")
        ordered = sorted(pairs.items())
        return cls(
            verifier_ids=tuple(mine for mine, _ in ordered),
            drafter_ids=tuple(other for _, other in ordered),
            verifier_size=len(verifier),
            drafter_size=len(drafter),
            verifier_fingerprint=verifier.fingerprint,
            drafter_fingerprint=drafter.fingerprint,
            verifier_name=verifier.name,
            drafter_name=drafter.name,
        )

    def __len__(self) -> int:
        return len(self.verifier_ids)

    @cached_property
    def to_drafter(self) -> dict[int, int]:
        """The drafter's id of each of the verifier's that has one."""
        return dict(zip(self.verifier_ids, self.drafter_ids, strict=True))

    @cached_property
    def to_verifier(self) -> dict[int, int]:
        """The verifier's id of each of the drafter's that has one."""
        return dict(zip(self.drafter_ids, self.verifier_ids, strict=True))

    def check(self, verifier: Vocabulary, drafter: Vocabulary) -> None:
        """Raises IncompatibleModelsError unless the map is one of these two vocabularies.

        It must have been made of them, pair ordinary tokens, and of those only such as spell the same bytes.
        Special tokens, and those that end an answer, are paired by what they do, which no spelling tells.
        """
        for role, vocabulary, fingerprint, name in (
            ("verifier", verifier, self.verifier_fingerprint, self.verifier_name),
            ("drafter", drafter, self.drafter_fingerprint, self.drafter_name),
        ):
            if vocabulary.fingerprint != fingerprint:
                raise IncompatibleModelsError(
                    f"vocab_map was made for a {role} with another vocabulary ({name or 'not named'}) than "
                    f"that of {vocabulary.name}; {ANOTHER_MAP}"
                )
        ends = _ends(verifier), _ends(drafter)
        num_ordinary = 0
        for mine, own in zip(self.verifier_ids, self.drafter_ids, strict=True):
            if mine in verifier.special or own in drafter.special or (mine in ends[0] and own in ends[1]):
                continue
            num_ordinary += 1
            if not verifier.spelling(mine) == drafter.spelling(own) != b"":
                raise IncompatibleModelsError(
                    f"vocab_map pairs token {mine} of {verifier.name}, {verifier.spelling(mine)!r}, with "
                    f"{own} of {drafter.name}, {drafter.spelling(own)!r}, which spells other bytes; "
                    f"{ANOTHER_MAP}"
                )
        if not num_ordinary:
            raise IncompatibleModelsError(
                f"{verifier.name} and {drafter.name} have no token in common in vocab_map; {ANOTHER_MAP}"
            )


def check_rule(rule: Rule) -> None:
    """Raises UnsupportedRequestError for a rule that needs what a drafter of another family cannot say."""
    if rule.delta not in MAPPED_DELTAS:
        raise UnsupportedRequestError(
            f"delta={rule.delta!r} is not defined for a drafter of another family, which has no opinion of "
            f"tokens without a counterpart; deltas here: {', '.join(MAPPED_DELTAS)}"
        )


def _in_order(vocabulary: Vocabulary) -> list[int]:
    """The ids that have a token, in the order in which those of the same bytes are paired."""
    ids = [number for number, spelling in enumerate(vocabulary.spellings) if spelling]
    return sorted(ids, key=lambda number: (number in vocabulary.named_bytes, number))


def _ends(vocabulary: Vocabulary) -> set[int | None]:
    """The ids that end a turn or a text."""
    return {vocabulary.end_of_turn, *vocabulary.end_of_text}


def _roles(verifier: Vocabulary, drafter: Vocabulary) -> Iterator[tuple[int, int]]:
    """The ids that do the same: end a turn, end a text."""
    if verifier.end_of_turn is not None and drafter.end_of_turn is not None:
        yield verifier.end_of_turn, drafter.end_of_turn
    mine = [number for number in verifier.end_of_text if verifier.spelling(number)]
    theirs = [number for number in drafter.end_of_text if drafter.spelling(number)]
    same_name = {
        number: other
        for number in mine
        for other in theirs
        if verifier.spelling(number) == drafter.spelling(other)
    }
    if same_name:
        yield from same_name.items()
    elif mine and theirs:
        yield mine[0], theirs[0]
