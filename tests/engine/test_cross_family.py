"""A drafter of another family: exact against a decoder without caches, as ever where it is of the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, get_args

import pytest
import torch

from asymspec_agents.decoding.modes import MODES, BonusMode, Rule
from asymspec_agents.decoding.transcript import MAX_TAIL_BYTES
from asymspec_agents.engine import loop
from asymspec_agents.engine.engine import Engine, EngineOptions
from asymspec_agents.engine.foreign import ForeignView
from asymspec_agents.engine.view import View
from asymspec_agents.errors import ContextOverflowError, UnsupportedRequestError
from asymspec_agents.protocol import AsymSpecOptions
from tests.decoding.made_tokenizers import FAMILIES, made, speller, transcriber, vocabulary

from .fresh import check_cache
from .naive import Comparison, compare
from .test_rollback import _forced
from .two_families import PAIRS, models, naive, prompts, run, two_family_engine

by_pair = pytest.mark.parametrize(("verifier", "drafter"), PAIRS)
RULE = Rule("cda", "context")
SETTINGS: list[dict[str, Any]] = [
    {},
    {"gamma": 1.0, "num_draft_tokens": 4},
    {"gamma": 1.0, "bonus": "none"},
    {"gamma": 1.0, "bonus": "verifier", "num_draft_tokens": 3},
    {"mode": "cda_only", "gamma": 1.0},
    {"mode": "fixed_gate", "gamma": 1.5},
    {"mode": "fused_greedy"},
    {"mode": "scaled", "beta": 2.0},
    {"mode": "strict"},
    {"gate": "position", "delta": "context", "gamma": 1.0},
    {"gate": "slack", "delta": "context", "slack": 0.3},
    {"beta": 2.0, "agreement": True, "plausibility": 0.1, "gamma": 2.0},
]
NUM_QUICK = 4  # the others are of the full tier
by_settings = pytest.mark.parametrize(
    "options",
    [
        *SETTINGS[:NUM_QUICK],
        *(pytest.param(options, marks=pytest.mark.full) for options in SETTINGS[NUM_QUICK:]),
    ],
    ids=str,
)


@pytest.mark.parametrize("family", FAMILIES)
@by_settings
def test_under_the_identity_the_result_is_that_of_one_family(family: str, options: dict[str, Any]) -> None:
    """Token for token, block for block, the last place of a block included."""
    mapped = two_family_engine(family, family)
    large, small = models(family, family)
    plain = Engine(large, small, made(family), len(vocabulary(family)))
    seen: set[int] = set()
    for seed in range(2):
        views = prompts(family, family, seed)
        through_map, as_ever = run(mapped, views, **options), run(plain, views, **options)
        assert through_map.steps == as_ever.steps
        report = through_map.report
        assert report.model_copy(update={"cross_family": None}) == as_ever.report
        assert report.cross_family is not None
        assert report.cross_family.verifier_coverage == 1.0
        assert (report.cross_family.respelled, report.cross_family.reread) == (0, 0)
        seen.update(place for place, number in enumerate(report.accepted_per_position) if number)
    if options.get("gamma") == 1.0 and options.get("bonus", "rule") == "rule":
        assert max(seen) == options.get("num_draft_tokens", 2)


@by_pair
@by_settings
def test_every_block_is_that_of_the_decoder_without_caches(
    verifier: str, drafter: str, options: dict[str, Any]
) -> None:
    engine, seen = two_family_engine(verifier, drafter), Comparison()
    for seed in range(2):
        views = prompts(verifier, drafter, seed)
        result = run(engine, views, **options)
        compare(result, naive(verifier, drafter, views, AsymSpecOptions.of(**options)), seen)
    seen.check_excuses()
    assert seen.num_refused > 0
    if options.get("mode") != "strict":  # these two never agree word for word
        assert seen.num_accepted > 0


def test_the_settings_meet_tokens_that_are_spelled_anew() -> None:
    reports = [
        run(two_family_engine(*pair), prompts(*pair, seed)).report.cross_family
        for pair in PAIRS
        for seed in range(2)
    ]
    assert sum(report is not None and report.respelled > 0 for report in reports) >= 6
    assert any(report is not None and report.reread > 0 for report in reports)


def _readers(verifier: str, drafter: str, seed: int = 0) -> loop.Readers:
    large, small = models(verifier, drafter)
    family = two_family_engine(verifier, drafter).family
    assert family is not None
    views = prompts(verifier, drafter, seed)
    readers = loop.Readers(
        View(large, views["compressed"]),
        *(
            ForeignView(small, views[name], None, family.transcriber, family.translation)
            for name in ("drafter_full", "drafter_compressed")
        ),
    )
    for view in readers.all():
        view.prefill(lambda: None)
    return readers


def _check(readers: loop.Readers, verifier: str, drafter: str, committed: list[int]) -> None:
    """Both histories have the same bytes, and each cache is that of a fresh reading of its history."""
    written = vocabulary(verifier).spelled(committed)
    for view in readers.all():
        own = list(view.own(committed))
        assert view.tokens(committed) == [*view.prompt, *own][: view.cache.length]
        check_cache(view.model, view.cache, [*view.prompt, *own])
        if isinstance(view, ForeignView):
            special = {vocabulary(drafter).end_of_turn, *vocabulary(drafter).end_of_text}
            if not special & set(own):
                assert vocabulary(drafter).spelled(own) == written
            anew = transcriber(verifier, drafter).begin()
            anew.push(committed)
            assert anew.tokens == own


def _unmapped(verifier: str, drafter: str) -> Iterator[int]:
    """Tokens of the verifier, with and without a counterpart, in turn and without end."""
    to_drafter, special = transcriber(verifier, drafter).to_drafter, vocabulary(verifier).special
    ids = [token for token in range(len(vocabulary(verifier))) if token not in special]
    mapped, rest = [t for t in ids if t in to_drafter], [t for t in ids if t not in to_drafter]
    return itertools.cycle(
        itertools.chain.from_iterable(zip(rest[::3], mapped[::3], rest[1::3], strict=False))
    )


@by_pair
@pytest.mark.parametrize("bonus", get_args(BonusMode))
def test_after_every_pattern_every_cache_is_that_of_a_fresh_reading(
    verifier: str, drafter: str, bonus: BonusMode
) -> None:
    num_places = 2 + (bonus == "rule")
    tokens = _unmapped(verifier, drafter)
    counts = range(num_places + 1)
    pattern = [(j, next(tokens)) for pair in itertools.product(counts, counts) for j in pair]
    readers, committed = _readers(verifier, drafter), list[int]()
    longest = max(len(vocabulary(verifier).spelling(t)) for t in range(len(vocabulary(verifier))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "verify_block", _forced(iter(pattern)))
        forwarded = [view.num_forwarded for view in readers.all()]
        for block in itertools.islice(
            loop.blocks(readers, RULE, 2, bonus, len(vocabulary(verifier))), len(pattern)
        ):
            committed.extend(block.tokens)
            _check(readers, verifier, drafter, committed)
            for place, view in enumerate(readers.all()):  # nothing is ever read again from the beginning
                most = num_places + 1 + (MAX_TAIL_BYTES + longest if isinstance(view, ForeignView) else 0)
                assert view.num_forwarded - forwarded[place] <= most
                forwarded[place] = view.num_forwarded


@by_pair
def test_what_a_drafter_reads_again_grows_with_the_text_not_with_its_square(
    verifier: str, drafter: str
) -> None:
    """Over a whole answer, all that was forwarded is the history, the drafts, and what was spelled anew."""
    readers, committed = _readers(verifier, drafter), list[int]()
    started = [view.num_forwarded for view in readers.all()]
    num_blocks = 40
    rule = Rule("cda", "context", gamma=2.0)
    for block in itertools.islice(
        loop.blocks(readers, rule, 2, "rule", len(vocabulary(verifier))), num_blocks
    ):
        committed.extend(block.tokens)
    for place, view in enumerate(readers.all()):
        if isinstance(view, ForeignView):
            most = len(view.transcript.tokens) + 3 * num_blocks + view.transcript.num_replaced
            assert view.num_forwarded - started[place] <= most
            assert view.transcript.num_replaced <= 8 * view.transcript.num_respelled


@by_pair
def test_the_text_does_not_depend_on_the_number_of_drafts(verifier: str, drafter: str) -> None:
    for seed in range(2):
        views = prompts(verifier, drafter, seed)
        texts = {
            tuple(
                run(
                    two_family_engine(verifier, drafter), views, num_draft_tokens=k, bonus=bonus, gamma=1.0
                ).tokens
            )
            for k in (1, 2, 5, 8)
            for bonus in ("rule", "none")
        }
        assert len(texts) == 1


@by_pair
def test_other_requests_before_change_nothing_and_prefixes_are_found_again(
    verifier: str, drafter: str
) -> None:
    engine, views = two_family_engine(verifier, drafter), prompts(verifier, drafter, 3)
    first = run(two_family_engine(verifier, drafter), views)
    run(engine, prompts(verifier, drafter, 4))
    run(engine, views, arm="drafter")
    second, third = run(engine, views), run(engine, views)
    assert first.tokens == second.tokens == third.tokens
    cached = third.report.cached_tokens
    assert cached.verifier == len(views["compressed"]) - 1
    assert cached.drafter == len(views["drafter_full"]) - 1
    assert cached.base == len(views["drafter_compressed"]) - 1
    assert second.report.cached_tokens.drafter == cached.drafter  # read by the drafter alone, in its own ids


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


def test_a_view_that_is_ahead_of_an_interrupted_block_goes_back() -> None:
    readers = _readers("words", "digits")
    drafter = readers.drafter
    assert isinstance(drafter, ForeignView)
    tokens = list(itertools.islice(_unmapped("words", "digits"), 6))
    drafter.rewind(tokens)
    drafter.advance(tokens, [], 1)
    drafter.rewind(tokens[:3])
    assert drafter.own(tokens[:3]) == _transcribed("words", "digits", tokens[:3])
    check_cache(drafter.model, drafter.cache, [*drafter.prompt, *drafter.own(tokens[:3])])
    drafter.rewind([])
    assert drafter.cache.length == len(drafter.prompt) - 1


def _transcribed(verifier: str, drafter: str, tokens: list[int]) -> list[int]:
    transcript = transcriber(verifier, drafter).begin()
    transcript.push(tokens)
    return transcript.tokens


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
