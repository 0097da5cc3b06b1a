"""The map of two vocabularies: pairs by bytes and by role, one to one, the same every time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from asymspec_agents.decoding.coverage import SAMPLE, coverage
from asymspec_agents.decoding.modes import MODES
from asymspec_agents.decoding.spelling import Vocabulary
from asymspec_agents.decoding.vocab import VocabMap, check_rule
from asymspec_agents.errors import ConfigurationError, IncompatibleModelsError, UnsupportedRequestError

from .made_tokenizers import FAMILIES, made, speller, vocabulary

PAIRS = [(a, b) for a in FAMILIES for b in FAMILIES]


def _vocabulary(*tokens: bytes, special: tuple[int, ...] = (), **fields: object) -> Vocabulary:
    fingerprint = repr((tokens, special))
    found = Vocabulary("made", "byte_level", tokens, frozenset(special), frozenset(), None, (), fingerprint)
    return replace(found, **fields)  # type: ignore[arg-type]


def _pairs(verifier: Vocabulary, drafter: Vocabulary) -> dict[int, int]:
    return VocabMap.build(verifier, drafter).to_drafter


@pytest.mark.parametrize(("verifier", "drafter"), PAIRS)
def test_pairs_spell_the_same_or_do_the_same(verifier: str, drafter: str) -> None:
    mine, theirs = vocabulary(verifier), vocabulary(drafter)
    vocab_map = VocabMap.build(mine, theirs)
    roles = {mine.end_of_turn: theirs.end_of_turn, mine.end_of_text[0]: theirs.end_of_text[0]}
    for token, own in vocab_map.to_drafter.items():
        assert (token in mine.special) == (own in theirs.special)
        assert roles.get(token, own) == own
        assert token in roles or mine.spelling(token) == theirs.spelling(own)
    assert roles.items() <= vocab_map.to_drafter.items()
    both = {s for n, s in enumerate(mine.spellings) if n not in mine.special} & {
        s for n, s in enumerate(theirs.spellings) if n not in theirs.special
    }
    paired = {mine.spelling(token) for token in vocab_map.to_drafter if token not in mine.special}
    assert paired == both  # nothing that could be paired is left out


@pytest.mark.parametrize("family", FAMILIES)
def test_a_vocabulary_and_itself_give_the_identity(family: str) -> None:
    vocab_map = VocabMap.build(vocabulary(family), vocabulary(family))
    assert vocab_map.verifier_ids == vocab_map.drafter_ids == tuple(range(len(vocabulary(family))))


def test_of_several_tokens_that_spell_the_same_the_lowest_are_paired() -> None:
    mine = _vocabulary(b"b", b"a", b"a", b"c", b"a")
    assert _pairs(mine, _vocabulary(b"x", b"a", b"b")) == {0: 2, 1: 1}
    assert _pairs(_vocabulary(b"x", b"a"), mine) == {1: 1}
    assert _pairs(mine, _vocabulary(b"a", b"a")) == {1: 0, 2: 1}
    assert _pairs(mine, mine) == {number: number for number in range(5)}


def test_a_named_byte_is_paired_last() -> None:
    """<0x41> has a lower id than A in many vocabularies, but A is the one in use."""
    pieces, words = vocabulary("pieces"), vocabulary("words")
    newlines = [number for number, spelling in enumerate(pieces.spellings) if spelling == b"\n"]
    assert len(newlines) == 2
    assert newlines[0] in pieces.named_bytes
    vocab_map = VocabMap.build(pieces, words)
    assert newlines[1] in vocab_map.to_drafter
    assert newlines[0] not in vocab_map.to_drafter


def test_special_tokens_are_paired_by_what_they_do_before_their_names() -> None:
    mine = _vocabulary(b"a", b"<end>", b"</s>", special=(1, 2), end_of_turn=1, end_of_text=(2,))
    theirs = _vocabulary(b"</s>", b"a", special=(0,), end_of_turn=0)
    assert _pairs(mine, theirs) == {0: 1, 1: 0}
    theirs = _vocabulary(b"</s>", b"a", b"<eot>", special=(0, 2), end_of_turn=2, end_of_text=(0,))
    assert _pairs(mine, theirs) == {0: 1, 1: 2, 2: 0}


def test_several_ends_of_a_text_are_paired_by_name_where_names_agree() -> None:
    mine = _vocabulary(b"a", b"<x>", b"<y>", special=(1, 2), end_of_text=(1, 2))
    theirs = _vocabulary(b"a", b"<z>", b"<y>", special=(1, 2), end_of_text=(1, 2))
    assert _pairs(mine, theirs) == {0: 0, 2: 2}
    others = _vocabulary(b"a", b"<p>", b"<q>", special=(1, 2), end_of_text=(1, 2))
    assert _pairs(mine, others) == {0: 0, 1: 1}


def test_a_special_token_is_never_paired_with_a_text_of_its_name() -> None:
    mine = _vocabulary(b"a", b"<mark>", special=(1,))
    assert _pairs(mine, _vocabulary(b"a", b"<mark>")) == {0: 0}


def test_vocabularies_with_nothing_in_common_are_refused() -> None:
    with pytest.raises(IncompatibleModelsError, match="no token in common"):
        VocabMap.build(_vocabulary(b"a"), _vocabulary(b"b"))


def test_a_map_of_other_vocabularies_is_refused() -> None:
    words, digits = vocabulary("words"), vocabulary("digits")
    vocab_map = VocabMap.build(words, digits)
    vocab_map.check(words, digits)
    with pytest.raises(IncompatibleModelsError, match="made for a verifier with another vocabulary"):
        vocab_map.check(vocabulary("pieces"), digits)
    with pytest.raises(IncompatibleModelsError, match=r'drafter.*digits.*vocab_map="auto"'):
        vocab_map.check(words, words)


def test_a_map_without_ordinary_tokens_is_refused() -> None:
    mine = _vocabulary(b"a", b"b", b"<end>", special=(2,), end_of_turn=2)
    built = VocabMap.build(mine, mine)
    built.check(mine, mine)
    for ids in ((), (2,)):
        with pytest.raises(IncompatibleModelsError, match="no token in common in vocab_map; build it anew"):
            replace(built, verifier_ids=ids, drafter_ids=ids).check(mine, mine)


def test_a_map_of_tokens_that_spell_other_bytes_is_refused() -> None:
    words, digits = vocabulary("words"), vocabulary("digits")
    built = VocabMap.build(words, digits)
    permuted = replace(built, drafter_ids=built.drafter_ids[::-1])
    with pytest.raises(
        IncompatibleModelsError, match=r"token \d+ of words, b'.*', with \d+ of digits, b'.*'"
    ):
        permuted.check(words, digits)
    mine = _vocabulary(b"a", b"", b"b")
    nothing = replace(VocabMap.build(mine, mine), verifier_ids=(0, 1), drafter_ids=(0, 1))
    with pytest.raises(IncompatibleModelsError, match=r"token 1 of made, b'', with 1 of made, b''"):
        nothing.check(mine, mine)


def test_tokens_that_do_the_same_need_not_spell_the_same() -> None:
    """The end of a text may be a token that no tokenizer calls special."""
    mine = _vocabulary(b"a", b"<turn>", b"<stop>", special=(1,), end_of_turn=1, end_of_text=(2,))
    theirs = _vocabulary(b"<eot>", b"<eos>", b"a", special=(0,), end_of_turn=0, end_of_text=(1,))
    built = VocabMap.build(mine, theirs)
    assert built.to_drafter == {0: 2, 1: 0, 2: 1}
    built.check(mine, theirs)


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"verifier_ids": (1,)}, "the numbers must be the same"),
        ({"verifier_ids": (0, 9)}, "id 9 of the verifier, which has 3 ids"),
        ({"drafter_ids": (-1, 0)}, "id -1 of the drafter"),
        ({"drafter_ids": (1, 1)}, "pairs an id of the drafter twice"),
        ({"verifier_ids": (1, 0)}, "ascending"),
    ],
)
def test_a_map_that_is_none_is_refused(changes: dict[str, tuple[int, ...]], error: str) -> None:
    fields = {"verifier_ids": (0, 1), "drafter_ids": (1, 0), **changes}
    with pytest.raises(ConfigurationError, match=error):
        VocabMap(**fields, verifier_size=3, drafter_size=3, verifier_fingerprint="", drafter_fingerprint="")


@pytest.mark.parametrize("mode", MODES)
def test_rules_that_weigh_tokens_without_a_counterpart_are_refused(mode: str) -> None:
    rule = MODES[mode]
    if rule.delta in ("full", "scd"):
        with pytest.raises(UnsupportedRequestError, match=f"delta='{rule.delta}'"):
            check_rule(rule)
    else:
        check_rule(rule)


def test_coverage_counts_ids_tokens_and_bytes() -> None:
    mine, theirs = speller("words"), speller("digits")
    vocab_map = VocabMap.build(mine.vocabulary, theirs.vocabulary)
    found = coverage(vocab_map, mine, theirs, "the 1234")
    assert found.num_mapped == len(vocab_map)
    assert found.verifier_ids == len(vocab_map) / len(made("words"))
    assert found.drafter_ids == len(vocab_map) / len(made("digits"))
    written = [mine.vocabulary.spelling(token) for token in mine.ids(b"the 1234")]
    assert written == [b"the", b" ", b"12", b"3", b"4"]
    assert found.verifier_tokens == 4 / 5  # digits stand alone in the drafter's
    assert found.verifier_bytes == 6 / 8
    assert found.drafter_tokens == found.drafter_bytes == 1.0
    assert found.unmapped[0] == "12"
    assert ("<|im_end|>", "[/S]") in found.roles
    assert found.missing_bytes == ()
    whole = coverage(VocabMap.build(mine.vocabulary, mine.vocabulary), mine, mine, SAMPLE)
    assert whole.verifier_ids == whole.verifier_tokens == whole.drafter_bytes == 1.0
    assert whole.unmapped == ()
