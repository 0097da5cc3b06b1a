"""Decoding with a drafter that sees equals the naive loop, where another model reads every view anew."""

from __future__ import annotations

import functools
import itertools
from typing import Any, get_args

import pytest
import torch

from asymspec_agents.decoding.modes import BonusMode, Rule
from asymspec_agents.engine import loop
from asymspec_agents.engine.arms import arm_named
from asymspec_agents.engine.engine import DecodeRequest
from asymspec_agents.engine.view import View
from asymspec_agents.protocol import AsymSpecOptions
from tests.engine.fresh import LOGIT_TOLERANCE, check_view
from tests.engine.naive import Comparison, Naive, Reader, Rows, compare
from tests.engine.runs import Run
from tests.engine.test_rollback import _forced

from .families import FAMILIES
from .oracle import SeeingRows
from .pairs import ask, seeing_pair
from .test_reading import IMAGES

by_family = pytest.mark.parametrize("family", FAMILIES)


@functools.cache
def rows_of(family: str) -> tuple[Rows, Rows, Rows]:
    """The verifier's, the drafter's with all images, the drafter's without."""
    pair = seeing_pair(family)
    verifier = pair.backend.engine.models["verifier"].module
    return Rows(verifier), SeeingRows(pair.oracle, IMAGES), SeeingRows(pair.oracle, ())


def decoded(family: str, arm: str = "asymspec", **options: Any) -> tuple[Run, DecodeRequest]:
    pair = seeing_pair(family)
    request = pair.backend.with_arm(arm)._decode_request(ask(options=options, max_tokens=16), None)
    stream = pair.backend.engine.decode(request)
    steps = []
    while True:
        try:
            steps.append(next(stream))
        except StopIteration as end:
            return Run(tuple(steps), end.value), request


def naive(family: str, request: DecodeRequest, rule: Rule, tokens: list[int]) -> Naive:
    """The naive loop; what follows the prompts and `tokens` is computed in one forward each."""
    pair = seeing_pair(family)
    verifier, seeing, blind = rows_of(family)
    assert request.drafter_full is not None
    assert request.drafter_compressed is not None
    full = tuple(pair.oracle.real(request.drafter_full))
    short = tuple(request.drafter_compressed)
    for rows, prompt in ((verifier, tuple(request.compressed)), (seeing, full), (blind, short)):
        rows.prime((*prompt, *tokens), len(prompt))
    return Naive(
        rule,
        request.options.num_draft_tokens,
        request.options.bonus,
        pair.backend.engine.vocab_size,
        verifier=Reader(verifier, tuple(request.compressed)),
        drafter=Reader(seeing, full),
        base=Reader(blind, short) if rule.gate != "strict" else None,
    )


CASES: dict[str, dict[str, Any]] = {
    "default": {},
    "verifier": {"gamma": 0.0, "bonus": "verifier"},
    "none": {"gamma": 1.0, "bonus": "none", "num_draft_tokens": 3},
    "strict": {"mode": "strict"},
    "fused": {"mode": "fused_greedy", "beta": 2.0, "num_draft_tokens": 2},
}
FAST = {("qwen3_vl", case) for case in CASES} | {(family, "default") for family in FAMILIES}


@pytest.mark.parametrize(
    ("family", "options"),
    [
        pytest.param(
            family,
            CASES[case],
            id=f"{family}-{case}",
            marks=[] if (family, case) in FAST else [pytest.mark.full],
        )
        for family in FAMILIES
        for case in CASES
    ],
)
def test_blocks_are_the_naive_ones(family: str, options: dict[str, Any]) -> None:
    result, request = decoded(family, **options)
    seen = Comparison()
    compare(result, naive(family, request, AsymSpecOptions.of(**options).rule(), result.tokens), seen)
    assert seen.num_excused == 0
    assert result.report.images == 3
    assert result.report.fallback is None
    assert len(request.full) != result.report.drafter_prompt_tokens == len(request.drafter_full or ())
    assert request.options.num_draft_tokens == options.get("num_draft_tokens", 4)


@by_family
def test_the_drafter_alone_reads_the_images(family: str) -> None:
    result, request = decoded(family, "drafter")
    _, seeing, _ = rows_of(family)
    pair = seeing_pair(family)
    assert request.drafter_full is not None
    full = tuple(pair.oracle.real(request.drafter_full))
    seeing.prime((*full, *result.tokens), len(full))
    alone = Naive(Rule("strict", "none"), 0, "verifier", 258, verifier=Reader(seeing, full))
    seen = Comparison()
    compare(result, alone, seen)
    assert seen.num_excused == 0
    assert result.report.images == 3


@pytest.mark.parametrize("family", ["qwen2_vl", "smolvlm"])
def test_the_text_is_the_same_for_every_block_length(family: str) -> None:
    texts = {tuple(decoded(family, num_draft_tokens=n)[0].tokens) for n in (1, 5)}
    texts |= {tuple(decoded(family, num_draft_tokens=3, bonus="none")[0].tokens)}
    assert len(texts) == 1


@pytest.mark.parametrize(
    ("family", "bonus"),
    [
        pytest.param(family, bonus, marks=[] if family in ("qwen3_vl", "idefics3") else [pytest.mark.full])
        for family in FAMILIES
        for bonus in get_args(BonusMode)
    ],
)
def test_after_every_pattern_all_caches_are_those_of_a_fresh_reading(family: str, bonus: BonusMode) -> None:
    pair = seeing_pair(family)
    request = pair.backend._decode_request(ask(), None)
    assert request.drafter_full is not None
    assert request.drafter_compressed is not None
    readers = loop.Readers(
        View(pair.backend.engine.models["verifier"], request.compressed),
        View(pair.drafter, request.drafter_full, sight=request.sight),
        View(pair.drafter, request.drafter_compressed),
    )
    for view in readers.all():
        view.prefill(lambda: None)
    pattern = [(0, 5), (1, 6), (2, 7), (3, 8), (0, 9), (3, 10)]
    committed: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "verify_block", _forced(iter(pattern)))
        for block in itertools.islice(
            loop.blocks(readers, Rule("cda", "context"), 2, bonus, 258), len(pattern)
        ):
            committed.extend(block.tokens)
            check_view(readers.verifier, committed)
            for view, images in ((readers.drafter, IMAGES), (readers.base, ())):
                assert view is not None
                tokens = [*view.prompt, *committed]
                assert view.tokens(committed) == tokens[: view.cache.length]
                assert len(tokens) - 2 <= view.cache.length < len(tokens)
                unread = len(tokens) - view.cache.length
                copy = view.cache.copy_prefix(view.cache.length, 0)
                ids = torch.tensor([tokens[view.cache.length :]])
                got = pair.drafter.forward(ids, copy, unread, view.sight)[0]
                wanted = pair.oracle.logits(pair.oracle.real(tokens), images)[-unread:]
                torch.testing.assert_close(got, wanted, atol=LOGIT_TOLERANCE, rtol=1e-4)


def test_arms_in_which_the_verifier_reads_everything_read_texts() -> None:
    for arm in ("ceiling", "symmetric_full", "rapid", "symmetric_compressed", "floor", "scd"):
        result, request = decoded("qwen2_vl", arm)
        assert result.report.images == 0, arm
        assert request.arm == arm_named(arm)
        assert result.report.fallback == "images_as_text"
        assert request.sight is None
