"""A drafter of another family: exact against a decoder without caches, as ever where it is of the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, get_args

import pytest

from asymspec_agents.decoding.modes import BonusMode, Rule
from asymspec_agents.decoding.transcript import MAX_TAIL_BYTES
from asymspec_agents.engine import loop
from asymspec_agents.engine.engine import Engine
from asymspec_agents.engine.foreign import ForeignView
from asymspec_agents.engine.view import View
from asymspec_agents.protocol import AsymSpecOptions
from tests.decoding.made_tokenizers import FAMILIES, made, transcriber, vocabulary

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
