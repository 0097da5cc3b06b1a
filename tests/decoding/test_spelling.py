"""Bytes of tokens, and tokens of bytes, for tokenizers of several kinds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from asymspec_agents.decoding.spelling import Speller, Vocabulary
from asymspec_agents.errors import IncompatibleModelsError

from .made_tokenizers import FAMILIES, made, speller, vocabulary

by_family = pytest.mark.parametrize("family", FAMILIES)


@by_family
@given(text=st.text(max_size=40))
def test_tokens_spell_the_text_they_encode(family: str, text: str) -> None:
    """The tokenizer's own encoding of a text in its normal form, spelled, is that text."""
    tokenizer = made(family)
    normal = text
    if tokenizer.backend_tokenizer.normalizer is not None and family == "words":
        normal = tokenizer.backend_tokenizer.normalizer.normalize_str(text)
    for name in tokenizer.all_special_tokens:
        normal = normal.replace(name, "")
    ids = tokenizer.encode(normal, add_special_tokens=False)
    expected = (" " + normal if family == "pieces" and normal else normal).encode()
    if family != "pieces" or "▁" not in normal:
        assert vocabulary(family).spelled(ids) == expected


@by_family
@given(data=st.binary(max_size=40) | st.text(max_size=30).map(str.encode))
def test_any_bytes_are_spelled(family: str, data: bytes) -> None:
    ids = speller(family).ids(data)
    assert vocabulary(family).spelled(ids) == data
    assert not set(ids) & vocabulary(family).special


@by_family
def test_what_a_text_says_never_becomes_a_special_token(family: str) -> None:
    tokenizer = made(family)
    for name in tokenizer.all_special_tokens:
        ids = speller(family).ids(f"so {name} is".encode())
        assert not set(ids) & vocabulary(family).special
        assert len(ids) > 5


def test_an_ordinary_added_token_is_used_and_a_tokenizers_settings_stay_its_own() -> None:
    tokenizer = made("words")
    assert tokenizer.convert_tokens_to_ids("<tool_call>") in speller("words").ids(b"a <tool_call>")
    assert not tokenizer.backend_tokenizer.encode_special_tokens
    assert tokenizer.encode("<|im_end|>") == [tokenizer.eos_token_id]


def test_text_is_not_normalised_and_gets_no_space() -> None:
    decomposed = "e\N{COMBINING ACUTE ACCENT}".encode()
    assert vocabulary("words").spelled(speller("words").ids(decomposed)) == decomposed
    assert vocabulary("pieces").spelled(speller("pieces").ids(b"the")) == b"the"


@by_family
def test_ids_that_end_an_answer(family: str) -> None:
    tokenizer, found = made(family), vocabulary(family)
    assert found.end_of_turn == tokenizer.eos_token_id
    text_end = "</s>" if family == "pieces" else "<|endoftext|>"
    assert [found.spelling(number).decode() for number in found.end_of_text] == [text_end]


def test_the_end_of_a_turn_is_what_the_template_writes_not_the_configured_eos() -> None:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(made("words").backend_tokenizer.to_str()),
        eos_token="<|endoftext|>",
        chat_template=made("words").chat_template,
    )
    found = Vocabulary.of(tokenizer)
    assert found.spelling(found.end_of_turn or 0) == b"<|im_end|>"
    assert [found.spelling(number) for number in found.end_of_text] == [b"<|endoftext|>"]
    tokenizer.chat_template = "{{ raise_exception('no') }}"
    found = Vocabulary.of(tokenizer)
    assert found.spelling(found.end_of_turn or 0) == b"<|endoftext|>"


def test_fingerprints_tell_vocabularies_apart() -> None:
    prints = {vocabulary(family).fingerprint for family in FAMILIES}
    assert len(prints) == len(FAMILIES)
    again = Vocabulary.of(made("words"), name="another name")
    assert again.fingerprint == vocabulary("words").fingerprint


def test_a_byte_without_a_token_is_read_as_the_replacement_character() -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    bell = letters[-1]
    missing = next(
        number for number, spelling in enumerate(_byte_vocabulary(letters).spellings) if spelling == b"\xad"
    )
    assert letters[missing] == bell
    tokenizer = _byte_tokenizer(letters[:-1])
    spelling = Speller(tokenizer, Vocabulary.of(tokenizer))
    assert spelling.missing_bytes == (0xAD,)
    soft_hyphen = "a\N{SOFT HYPHEN}b".encode()
    spelled = spelling.vocabulary.spelled(spelling.ids(soft_hyphen))
    assert spelled == b"a\xc2" + "\N{REPLACEMENT CHARACTER}".encode() + b"b"


def _byte_tokenizer(letters: list[str]) -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    from tokenizers import decoders

    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def _byte_vocabulary(letters: list[str]) -> Vocabulary:
    return Vocabulary.of(_byte_tokenizer(letters))


def test_tokenizers_that_cannot_read_every_text_are_refused() -> None:
    plain = _byte_tokenizer(["a", "b"])
    with pytest.raises(IncompatibleModelsError, match="no tokens for the bytes 0xEF, 0xBF, 0xBD"):
        Speller(plain, Vocabulary.of(plain, name="ab"))
    words = Tokenizer(models.WordLevel({"a": 0, "[UNK]": 1}, unk_token="[UNK]"))
    with pytest.raises(IncompatibleModelsError, match="byte-level or SentencePiece"):
        Vocabulary.of(PreTrainedTokenizerFast(tokenizer_object=words))


def test_a_text_among_byte_level_tokens_is_itself_and_ids_may_have_gaps() -> None:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokens = {letter: number for number, letter in enumerate(letters)} | {"日本": len(letters) + 2}
    tokenizer = Tokenizer(models.BPE(vocab=tokens, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    found = Vocabulary.of(PreTrainedTokenizerFast(tokenizer_object=tokenizer), name="gaps")
    assert found.spelling(len(letters) + 2) == "日本".encode()
    assert found.spellings[len(letters)] is None
    closed = tokens | {"日本": len(letters)}
    tokenizer = Tokenizer(models.BPE(vocab=closed, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    other = Vocabulary.of(PreTrainedTokenizerFast(tokenizer_object=tokenizer), name="closed")
    assert other.fingerprint != found.fingerprint
