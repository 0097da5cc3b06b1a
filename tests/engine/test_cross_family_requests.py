"""Requests to a pair of two families: arms, refusals, ends, limits and reports."""

from __future__ import annotations

import pytest
import torch

from asymspec_agents.decoding.modes import MODES
from asymspec_agents.decoding.transcript import MAX_TAIL_BYTES
from asymspec_agents.engine.engine import Engine, EngineOptions
from asymspec_agents.errors import ContextOverflowError, UnsupportedRequestError
from tests.decoding.made_tokenizers import made, speller, transcriber, vocabulary

from .two_families import PAIRS, models, prompts, run, two_family_engine

by_pair = pytest.mark.parametrize(("verifier", "drafter"), PAIRS)


@by_pair
def test_every_arm_that_needs_no_opinion_of_all_tokens(verifier: str, drafter: str) -> None:
    engine, views = two_family_engine(verifier, drafter), prompts(verifier, drafter, 5)
    floor, ceiling = run(engine, views, arm="floor"), run(engine, views, arm="ceiling")
    assert run(engine, views, arm="symmetric_compressed").tokens == floor.tokens
    assert run(engine, views, mode="strict").tokens == floor.tokens
    assert run(engine, views, arm="symmetric_full").tokens == ceiling.tokens
    assert run(engine, views, arm="rapid").tokens == ceiling.tokens
    alone = run(engine, views, arm="drafter")
    small = Engine(
        models(verifier, drafter)[1], models(verifier, drafter)[1], made(drafter), len(vocabulary(drafter))
    )
    own = {"full": views["drafter_full"], "compressed": views["drafter_compressed"]}
    expected = run(small, own, arm="drafter")
    assert (alone.tokens, alone.text) == (expected.tokens, expected.text)
    assert alone.report.cross_family is None


@pytest.mark.parametrize("mode", [mode for mode, rule in MODES.items() if rule.delta in ("full", "scd")])
def test_deltas_that_need_an_opinion_of_all_tokens_are_refused(mode: str) -> None:
    engine, views = two_family_engine("words", "digits"), prompts("words", "digits", 0)
    with pytest.raises(UnsupportedRequestError, match="not defined for a drafter of another family"):
        run(engine, views, mode=mode)


def test_speculative_contrastive_decoding_is_refused() -> None:
    with pytest.raises(UnsupportedRequestError, match="delta='scd'"):
        run(two_family_engine("words", "digits"), prompts("words", "digits", 0), arm="scd")


def test_identical_views_are_those_that_nobody_sees_more_of() -> None:
    engine, views = two_family_engine("words", "digits"), prompts("words", "digits", 0)
    same = {**views, "compressed": views["full"], "drafter_compressed": views["drafter_full"]}
    result = run(engine, same)
    assert (result.report.mode, result.report.fallback) == ("strict", "identical_views")
    assert result.tokens == run(engine, same, arm="ceiling").tokens
    assert run(engine, {**views, "compressed": views["full"]}).report.fallback is None


@pytest.mark.parametrize("ends", ["verifier's", "drafter's"])
def test_the_end_of_a_turn_in_either_family_ends_the_answer(ends: str) -> None:
    """What the drafter's configuration calls an end is one in the verifier's tokens, if they have it."""
    engine, views = two_family_engine("words", "digits"), prompts("words", "digits", 0)
    tokens = run(engine, views).tokens
    at = next(i for i, t in enumerate(tokens) if i > 3 and t in transcriber("words", "digits").to_drafter)
    family = engine.family
    assert family is not None
    large, small = models("words", "digits")
    with pytest.MonkeyPatch.context() as patch:
        if ends == "verifier's":
            patch.setattr(large, "eos_token_ids", frozenset({tokens[at]}))
        else:
            patch.setattr(small, "eos_token_ids", frozenset({family.transcriber.to_drafter[tokens[at]]}))
        ended = run(two_family_engine("words", "digits"), views)
    assert ended.tokens == tokens[: tokens.index(tokens[at]) + 1]
    assert ended.outcome.finish_reason == "stop"


def test_an_answer_ends_where_the_drafters_context_is_full() -> None:
    """The drafter may need more tokens for a text than the verifier; it never reads beyond its positions."""
    engine = two_family_engine("words", "digits")
    views, small = prompts("words", "digits", 0), engine.models["drafter"]
    whole = run(engine, views, max_tokens=60)
    room = len(views["drafter_full"]) + 40
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small, "max_positions", room)
        cut = run(two_family_engine("words", "digits"), views, max_tokens=30)
    assert cut.outcome.finish_reason == "length"
    assert cut.tokens == whole.tokens[: len(cut.tokens)]
    written = transcriber("words", "digits").begin()
    written.push(cut.tokens)
    assert room - 64 - MAX_TAIL_BYTES < len(views["drafter_full"]) + len(written.tokens) + 3


def test_stop_strings_end_where_they_do_for_one_family() -> None:
    engine, views = two_family_engine("words", "digits"), prompts("words", "digits", 1)
    whole = run(engine, views)
    stop = whole.text[5:8]
    cut = run(engine, views, stop=(stop,))
    assert cut.text == whole.text[: whole.text.index(stop)]
    assert cut.outcome.finish_reason == "stop"


def test_long_views_are_refused_by_the_drafters_own_count() -> None:
    options = EngineOptions(max_drafter_tokens=len(prompts("words", "digits", 0)["drafter_full"]) - 1)
    engine = two_family_engine("words", "digits", options=options)
    views = prompts("words", "digits", 0)
    assert len(views["full"]) < len(views["drafter_full"])
    with pytest.raises(
        ContextOverflowError, match=f"has {len(views['drafter_full'])} tokens, 1 over the limit"
    ):
        run(engine, views)


def test_the_report_says_what_was_mapped() -> None:
    engine, views = two_family_engine("words", "digits"), prompts("words", "digits", 0)
    result = run(engine, views)
    report = result.report.cross_family
    pairs = transcriber("words", "digits").to_drafter
    assert report is not None
    assert report.mapped_tokens == len(pairs)
    assert report.verifier_coverage == len(pairs) / len(vocabulary("words"))
    assert report.drafter_coverage == len(pairs) / len(vocabulary("digits"))
    emitted = result.report.accepted + result.report.fused
    if len(result.tokens) == emitted:
        assert report.respelled == sum(token not in pairs for token in result.tokens)
    assert speller("digits").vocabulary is vocabulary("digits")
    assert torch.equal(
        engine.family.translation.ids(torch.tensor([list(pairs)])),  # type: ignore[union-attr]
        torch.tensor([list(pairs.values())]),
    )
