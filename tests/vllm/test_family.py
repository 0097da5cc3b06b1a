"""What a drafter of another family needs before any model is there: lengths, prompts, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.backends.request import ChatRequest, CompletionRequest
from asymspec_agents.decoding.vocab import VocabMap
from asymspec_agents.decoding.vocab_file import save_map
from asymspec_agents.errors import (
    ConfigurationError,
    ContextOverflowError,
    IncompatibleModelsError,
    UnsupportedRequestError,
)
from asymspec_agents.protocol import AsymSpecOptions
from tests.decoding.made_tokenizers import made, vocabulary
from vllm_asymspec.admission import check_own_ids, check_request
from vllm_asymspec.budget import DrafterShape, Limits, PoolShape
from vllm_asymspec.family import Family
from vllm_asymspec.reading import reading_of
from vllm_asymspec.server.asked import Abilities, asked
from vllm_asymspec.server.own_views import OwnViews
from vllm_asymspec.views import Views
from vllm_asymspec.wire_args import EXTRA_ARG, AsymSpecArgs, pack_ids, unpack_ids

from .family_machine import paper_family

MESSAGES = [{"role": "user", "content": "What is 120 and 2024? Unbelievable."}]
EDITS = [{"message": 0, "text": "Numbers?"}]


@pytest.fixture
def family() -> Family:
    return paper_family("words", "digits", is_thin=False)


def arguments(full: list[int], base: list[int], **options: Any) -> AsymSpecArgs:
    return AsymSpecArgs(pack_ids(full), AsymSpecOptions.of(**options), base_ids=pack_ids(base))


@given(data=st.data())
def test_no_token_lengthens_the_answer_by_more_than_the_bound(data: st.DataObject) -> None:
    """Beyond itself, and whatever stands before it."""
    pair = data.draw(st.sampled_from([("words", "digits"), ("words", "pieces"), ("pieces", "digits")]))
    family = paper_family(*pair, is_thin=False)
    written = family.begin()
    for token in data.draw(st.lists(st.integers(0, family.num_ids - 1), max_size=40)):
        before = len(written.tokens)
        written.push((token,))
        assert len(written.tokens) <= before + 1 + family.max_growth


def test_a_file_that_pairs_tokens_of_other_bytes_is_refused(tmp_path: Path) -> None:
    words, digits = vocabulary("words"), vocabulary("digits")
    built = VocabMap.build(words, digits)
    sizes = len(words), len(digits)
    for ids, told in ((built.drafter_ids[::-1], "spells other bytes"), ((), "no token in common")):
        pairs = {"verifier_ids": built.verifier_ids[: len(ids)], "drafter_ids": ids}
        save_map(replace(built, **pairs), tmp_path / "map.json")
        with pytest.raises(IncompatibleModelsError, match=told):
            Family.of(
                str(tmp_path / "map.json"),
                words,
                digits,
                made("digits"),
                num_logits=sizes,
                drafter_end_ids=(),
            )


def test_the_report_counts_what_was_spelled(family: Family) -> None:
    written = family.begin()
    unmapped = next(t for t in range(family.num_ids) if t not in family.vocab_map.to_drafter)
    written.push((*family.vocab_map.verifier_ids[:3], unmapped))
    report = family.report(written)
    assert report["respelled"] == 1
    assert report["mapped_tokens"] == len(family.vocab_map) == family.num_mapped
    assert report["verifier_coverage"] == family.num_mapped / family.num_ids


def test_lengths_are_those_of_the_drafters_views(family: Family) -> None:
    reading = reading_of(arguments([1, 2, 3], [4]), pack_ids([5] * 50))
    assert (reading.has_base, reading.strict) == (True, False)
    assert (reading.full_delta, reading.base_delta) == (3 - 50, 1 - 50)
    same = reading_of(arguments([1, 2], [1, 2]), pack_ids([5]))
    assert (same.has_base, same.strict, same.full_delta, same.base_delta) == (False, True, 1, 1)


def test_both_views_travel_in_the_drafters_ids() -> None:
    received = AsymSpecArgs.of({EXTRA_ARG: arguments([1, 2, 3], [4, 5]).pack()})
    assert received is not None
    assert list(unpack_ids(received.base_ids)) == [4, 5]
    assert received.num_base_tokens == 2
    with pytest.raises(ConfigurationError, match=r"base_ids: .*negative"):
        arguments([1], [-1])
    with pytest.raises(ConfigurationError, match="base_ids: 5 bytes"):
        AsymSpecArgs(pack_ids([1]), AsymSpecOptions(), base_ids=b"\0" * 5)


@pytest.mark.parametrize(
    ("base", "has_own", "told"), [([], True, "base_ids is missing"), ([1], False, "leave it out")]
)
def test_views_in_the_wrong_models_ids_are_refused(base: list[int], has_own: bool, told: str) -> None:
    check_own_ids(arguments([1], [2] if has_own else []), has_own=has_own, sees=False)
    with pytest.raises(ConfigurationError, match=told):
        check_own_ids(arguments([1], base), has_own=has_own, sees=False)
    for either in ([], [2]):
        check_own_ids(arguments([1], either), has_own=False, sees=True)


def limits(**changed: Any) -> Limits:
    shape = DrafterShape(1, 1, 8, 4, max_positions=400, vocab_size=20)
    values: dict[str, Any] = {
        "pool": PoolShape(200, 4, 1),
        "drafter": shape,
        "max_model_len": 300,
        "num_draft_tokens": 2,
        "num_steps_in_flight": 1,
    }
    return Limits(**{**values, **changed})


def test_a_views_length_is_checked_in_the_tokens_of_who_reads_it() -> None:
    check_request(limits(), arguments([1] * 30, [2] * 20), pack_ids([10_000] * 50), 10)
    for args, compressed, view in (
        (arguments([1] * 385, [2]), [1], "full"),
        (arguments([1], [2] * 385), [1], "compressed"),
        (arguments([1], [2]), [1] * 295, "compressed"),
    ):
        with pytest.raises(ContextOverflowError) as caught:
            check_request(limits(), args, pack_ids(compressed), 10)
        assert caught.value.view == view
    with pytest.raises(ConfigurationError, match="token id 20 of the compressed view"):
        check_request(limits(), arguments([1], [20]), pack_ids([1]), 10)


def test_what_a_step_may_add_is_kept_free() -> None:
    assert limits(max_growth=50).num_lookahead_tokens == limits().num_lookahead_tokens + 50
    assert limits(max_growth=50).max_full_len == limits().max_full_len - 50
    ahead = limits(max_growth=50, num_steps_in_flight=2)
    assert ahead.num_lookahead_tokens == limits(num_steps_in_flight=2).num_lookahead_tokens + 100


@given(num_full=st.integers(1, 400), num_base=st.none() | st.integers(1, 400), answer=st.integers(1, 400))
def test_what_is_admitted_is_held(num_full: int, num_base: int | None, answer: int) -> None:
    found = limits(pool=PoolShape(120, 4, 1))
    has_base = num_base is not None
    most = found.max_answer_tokens(num_full=num_full, num_compressed=1, has_base=has_base, num_base=num_base)
    lengths = num_full + answer, None if num_base is None else num_base + answer
    fits = found.holds(*lengths) and 1 + answer <= found.max_model_len
    assert fits == (answer <= most)


def test_an_answer_longer_in_the_drafters_tokens_than_there_is_room_ends(family: Family) -> None:
    found = limits(pool=PoolShape(900, 4, 1), max_growth=family.max_growth)
    views = Views(found, 2, family=family)
    room = found.max_full_len
    unmapped = [
        token
        for token in range(family.num_ids)
        if token not in family.vocab_map.to_drafter and len(family.transcriber.verifier.spelling(token)) > 1
    ]
    views.add("a", arguments([1] * (room - 5), [2]), pack_ids([3]), None)
    assert views.write("a", [family.vocab_map.verifier_ids[0]] * 2) is None
    num_fitting = views.write("a", unmapped[:4])
    assert num_fitting is not None
    written = family.begin()
    written.push([family.vocab_map.verifier_ids[0]] * 2)
    lengths = []
    for token in unmapped[:num_fitting]:
        written.push((token,))
        lengths.append(len(written.tokens))
    assert lengths[-1] > 5
    assert all(length <= 5 for length in lengths[:-1])


@pytest.fixture
def own_views(family: Family) -> OwnViews:
    return OwnViews(family, "small", made("words"), "large")


def test_a_chat_is_read_by_the_drafters_own_template(own_views: OwnViews) -> None:
    request = ChatRequest(messages=MESSAGES, asymspec={"edits": EDITS})  # type: ignore[arg-type]
    prompts = own_views.read(request)
    tokenizer = made("digits")
    full = tokenizer.apply_chat_template(MESSAGES, add_generation_prompt=True, tokenize=False)
    assert list(prompts.drafter_full or ()) == tokenizer.encode(full, add_special_tokens=False)
    assert tokenizer.decode(list(prompts.drafter_compressed or ())) == full.replace(
        MESSAGES[0]["content"], "Numbers?"
    )


def test_a_completions_ids_are_the_verifiers(own_views: OwnViews, family: Family) -> None:
    text = "the cedar 2024"
    ids = tuple(made("words").encode(text))
    request = CompletionRequest(prompt=ids, asymspec={"prompt": "there"})  # type: ignore[arg-type]
    prompts = own_views.read(request)
    assert family.transcriber.drafter.spelled(prompts.drafter_full or ()) == text.encode()
    assert list(prompts.drafter_compressed or ()) == made("digits").encode("there")


@pytest.mark.parametrize(
    ("options", "extra", "told", "fallback"),
    [
        ({"mode": "raw_full"}, {}, "delta='full'", "cross_family_delta"),
        ({"gate": "cda", "delta": "scd"}, {}, "delta='scd'", "cross_family_delta"),
        (
            {},
            {"continue_final_message": True},
            "continue_final_message",
            "continue_final_message_unsupported",
        ),
        ({}, {"add_generation_prompt": False}, "add_generation_prompt", "add_generation_prompt_unsupported"),
        ({}, {"documents": [{"text": "x"}]}, "documents", "documents_unsupported"),
    ],
)
def test_what_such_a_drafter_can_not_follow(
    own_views: OwnViews, options: Mapping[str, Any], extra: Mapping[str, Any], told: str, fallback: str
) -> None:
    abilities = Abilities(2, has_processed_logits=True, own_views=own_views)

    def request(**further: Any) -> ChatRequest:
        asymspec: Any = {"edits": EDITS, **options, **further}
        return ChatRequest(messages=MESSAGES, asymspec=asymspec, extra=extra)  # type: ignore[arg-type]

    with pytest.raises(UnsupportedRequestError, match=told):
        asked(request(), abilities)
    plain = asked(request(on_unsupported="verifier"), abilities)
    assert plain.is_plain
    assert plain.fallbacks == (fallback,)
    assert asked(request(), Abilities(2, has_processed_logits=True)).fallbacks == ()


def test_neutral_values_ask_for_nothing(own_views: OwnViews) -> None:
    extra = {"continue_final_message": False, "add_generation_prompt": True, "documents": None}
    request = ChatRequest(messages=MESSAGES, asymspec={"edits": EDITS}, extra=extra)  # type: ignore[arg-type]
    assert asked(request, Abilities(2, has_processed_logits=True, own_views=own_views)).fallbacks == ()
