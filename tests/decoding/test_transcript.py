"""The verifier's text in another family's tokens: the same bytes, little spelled again, in any blocks."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.decoding.transcript import MAX_TAIL_BYTES, Transcript
from asymspec_agents.engine.prefix import common_length

from .made_tokenizers import FAMILIES, made, speller, transcriber, vocabulary

PAIRS = [(a, b) for a in FAMILIES for b in FAMILIES if a != b]
by_pair = pytest.mark.parametrize(("verifier", "drafter"), PAIRS)
TEXTS = [
    "The first 1234567 of 2024, then 12.50 and 3",
    "  leading, and   inner spaces \n\n\n  between\t lines \r\n end  ",
    "naïve café — Straßenbahn, Ångström e\u0301a\u0308 fi",
    "東京で会いましょう。你好,世界。안녕하세요",
    "שלום עולם مرحبا بالعالم नमस्ते",
    "🙂👍🏽👩‍👩‍👧 emoji\u200djoined 🇨🇭",
    "def f(x):\n    return {'a': [1, 2], \"b\": x}\n\n\nunbelievable",
    "a" * 300 + " " * 200 + "\n" * 100,
    "I'm can't WE'LL it's <|im_end|> [/S] </s> <tool_call>",
]
text_or_odd = st.text(max_size=60) | st.sampled_from(TEXTS)


def _pushed(verifier: str, drafter: str, tokens: list[int]) -> Transcript:
    transcript = transcriber(verifier, drafter).begin()
    transcript.push(tokens)
    return transcript


@by_pair
@given(text=text_or_odd)
def test_after_every_token_both_have_the_same_bytes(verifier: str, drafter: str, text: str) -> None:
    tokens = speller(verifier).ids(text.encode())
    transcript = transcriber(verifier, drafter).begin()
    for count, token in enumerate(tokens, 1):
        transcript.push([token])
        assert vocabulary(drafter).spelled(transcript.tokens) == vocabulary(verifier).spelled(tokens[:count])
    assert transcript.num_pushed == len(tokens)


@by_pair
@given(seed=st.integers(0, 10_000))
def test_any_tokens_at_all_keep_the_same_bytes(verifier: str, drafter: str, seed: int) -> None:
    """Also tokens that no tokenizer would write in this order: halves of characters, split words."""
    generator = random.Random(seed)
    mine, special = vocabulary(verifier), vocabulary(verifier).special
    tokens = [number for number in generator.choices(range(len(mine)), k=40) if number not in special]
    transcript = _pushed(verifier, drafter, tokens)
    assert vocabulary(drafter).spelled(transcript.tokens) == mine.spelled(tokens)
    assert transcript.num_respelled == sum(t not in transcriber(verifier, drafter).to_drafter for t in tokens)


@by_pair
@given(text=text_or_odd, data=st.data())
def test_it_does_not_matter_where_blocks_fall(
    verifier: str, drafter: str, text: str, data: st.DataObject
) -> None:
    tokens = speller(verifier).ids(text.encode())
    whole = _pushed(verifier, drafter, tokens)
    pieces = transcriber(verifier, drafter).begin()
    start = 0
    while start < len(tokens):
        end = start + data.draw(st.integers(1, 9))
        pieces.push(tokens[start:end])
        start = end
    assert pieces.tokens == whole.tokens


@by_pair
@given(text=text_or_odd)
def test_a_token_with_a_counterpart_only_adds_it(verifier: str, drafter: str, text: str) -> None:
    to_drafter = transcriber(verifier, drafter).to_drafter
    transcript = transcriber(verifier, drafter).begin()
    for token in speller(verifier).ids(text.encode()):
        before = list(transcript.tokens)
        transcript.push([token])
        if token in to_drafter:
            assert transcript.tokens == [*before, to_drafter[token]]


@by_pair
def test_what_is_read_again_is_bounded(verifier: str, drafter: str) -> None:
    """However long the text and whatever is in it, a token changes the last few tokens and no others."""
    longest = max(len(vocabulary(verifier).spelling(token)) for token in range(len(vocabulary(verifier))))
    for seed, text in enumerate([*TEXTS, " ".join(TEXTS) * 5]):
        tokens = speller(verifier).ids(text.encode())
        random.Random(seed).shuffle(tokens)
        transcript = transcriber(verifier, drafter).begin()
        for token in tokens:
            before = list(transcript.tokens)
            transcript.push([token])
            num_kept = common_length(before, transcript.tokens)
            assert len(before) - num_kept <= MAX_TAIL_BYTES
            assert len(transcript.tokens) - num_kept <= MAX_TAIL_BYTES + longest


@by_pair
@given(words=st.lists(st.sampled_from(["the", "12", "unbelievable", "東京", "café", "'s", ")", "x\n", "🙂"])))
def test_behind_a_safe_boundary_nothing_earlier_changes(
    verifier: str, drafter: str, words: list[str]
) -> None:
    """A text of words, spelled anew at its end alone, is what the drafter's tokenizer makes of it whole."""
    for place in range(1, len(words)):
        left, right = " ".join(words[:place]).encode(), b" " + " ".join(words[place:]).encode()
        if not left.endswith(b"\n"):
            assert speller(drafter).ids(left + right) == speller(drafter).ids(left) + speller(drafter).ids(
                right
            )


@pytest.mark.parametrize("family", FAMILIES)
@given(seed=st.integers(0, 1000))
def test_under_the_identity_a_transcript_is_the_tokens_themselves(family: str, seed: int) -> None:
    tokens = random.Random(seed).choices(range(len(vocabulary(family))), k=50)
    assert _pushed(family, family, tokens).tokens == tokens


def test_a_word_without_a_token_is_spelled_as_the_drafters_tokenizer_writes_it() -> None:
    word = made("words").encode(" unbelievable 2024")
    assert [vocabulary("words").spelling(token) for token in word][-2:] == [b"202", b"4"]
    transcript = _pushed("words", "digits", word)
    assert transcript.tokens == speller("digits").ids(b" unbelievable 2024")


def test_ends_of_turns_are_counterparts_and_bounds() -> None:
    mine, theirs = vocabulary("words"), vocabulary("digits")
    tokens = [*speller("words").ids(b"so 123"), mine.end_of_turn or 0, *speller("words").ids(b"123")]
    transcript = _pushed("words", "digits", tokens)
    end = transcript.tokens.index(theirs.end_of_turn or 0)
    assert transcript.tokens[:end] == speller("digits").ids(b"so 123")
    assert transcript.tokens[end + 1 :] == speller("digits").ids(b"123")


@by_pair
@given(text=st.text(max_size=60))
def test_a_whole_prompt_is_spelled_as_the_drafter_would(verifier: str, drafter: str, text: str) -> None:
    mine = vocabulary(verifier)
    words = speller(verifier).ids(text.encode())
    prompt = [*words, mine.end_of_turn or 0, *words]
    anew = speller(drafter).ids(text.encode())
    assert transcriber(verifier, drafter).respelled(prompt) == [
        *anew,
        vocabulary(drafter).end_of_turn,
        *anew,
    ]
