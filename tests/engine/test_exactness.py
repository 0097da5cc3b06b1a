"""The cached block loop equals the naive one that reads all three views anew: token for token."""

from __future__ import annotations

import itertools
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.decoding.modes import MODES, BonusMode, Delta, Gate, Rule
from asymspec_agents.protocol import AsymSpecOptions
from tests.property import oracle

from .naive import Comparison, compare, judge
from .runs import run
from .settings import ARM_READERS, naive_arm, naive_asymspec
from .tiny import ARCHITECTURES, tiny_engine, views

# Every gated cell must see acceptances and refusals: gamma and slack are chosen for that.
NUMBERS: dict[str, Any] = {"gamma": 1.0, "slack": 0.3}
CELLS = [
    (gate, delta)
    for gate, delta in itertools.product(get_args(Gate), get_args(Delta))
    if gate != "strict" or delta == "none"  # strict uses no delta
]
MIN_TOKENS = 200
TOKENS_PER_PROMPT = 50  # several prompts, since a sliding window forgets how the views differ

by_architecture = pytest.mark.parametrize("architecture", ARCHITECTURES)


def _check(
    architecture: str, seeds: range, max_tokens: int, seen: Comparison, *, fresh: bool = True, **options: Any
) -> None:
    engine = tiny_engine(architecture)
    chosen = AsymSpecOptions.of(**options)
    for seed in seeds:
        both = views(seed)
        result = run(engine, both, max_tokens=max_tokens, **options)
        assert len(result.tokens) == max_tokens
        compare(result, naive_asymspec(architecture, both, chosen), seen)
        if fresh:
            engine.prefixes.clear()


@pytest.mark.full
@by_architecture
@pytest.mark.parametrize(("gate", "delta"), CELLS)
def test_full_matrix(architecture: str, gate: str, delta: str) -> None:
    total = Comparison()
    for bonus, num_draft_tokens in itertools.product(get_args(BonusMode), range(1, 5)):
        seen = Comparison()
        seeds = range(-(-MIN_TOKENS // TOKENS_PER_PROMPT))
        _check(
            architecture,
            seeds,
            TOKENS_PER_PROMPT,
            seen,
            gate=gate,
            delta=delta,
            bonus=bonus,
            num_draft_tokens=num_draft_tokens,
            **NUMBERS,
        )
        assert seen.num_tokens >= MIN_TOKENS
        assert seen.num_accepted > 0, (bonus, num_draft_tokens)
        assert seen.num_refused > 0, (bonus, num_draft_tokens)
        seen.check_excuses()
        total.num_tokens += seen.num_tokens
        total.num_excused += seen.num_excused
    total.check_excuses()


SUBSET: list[dict[str, Any]] = [
    {"gamma": 1.0},
    {"num_draft_tokens": 4, "bonus": "verifier", "gamma": 1.0},
    {"num_draft_tokens": 3, "bonus": "none", "gamma": 1.0},
    {"mode": "raw_full", "num_draft_tokens": 1, "gamma": 1.0},
    {"mode": "fixed_gate", "bonus": "verifier", "gamma": 1.0},
    {"mode": "fused_greedy", "num_draft_tokens": 3},
    {"mode": "product", "num_draft_tokens": 4},
    {"mode": "scaled", "beta": 2.0},
    {"gate": "position", "delta": "scd", "gamma": 1.0, "num_draft_tokens": 4},
    {"gate": "slack", "delta": "context", "slack": 0.3},
    {"mode": "strict", "num_draft_tokens": 8},
    {"beta": 2.0, "agreement": True, "plausibility": 0.1, "gamma": 2.0},
]


@by_architecture
@pytest.mark.parametrize("options", SUBSET, ids=lambda o: "-".join(map(str, o.values())))
def test_chosen_settings(architecture: str, options: dict[str, Any]) -> None:
    seen = Comparison()
    _check(architecture, range(2), 24, seen, **options)
    assert seen.num_accepted > 0
    assert seen.num_refused > 0
    seen.check_excuses()


@pytest.mark.full
@by_architecture
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("num_draft_tokens", [2, 8])
def test_every_mode_with_parameters_far_from_the_defaults(
    architecture: str, mode: str, num_draft_tokens: int
) -> None:
    seen = Comparison()
    for agreement in (False, True):
        _check(
            architecture,
            range(4, 8),
            30,
            seen,
            mode=mode,
            num_draft_tokens=num_draft_tokens,
            beta=2.5,
            gamma=1.3,
            plausibility=0.05,
            agreement=agreement,
        )
    seen.check_excuses()
    assert seen.num_accepted > 0
    assert seen.num_refused > 0


@by_architecture
@pytest.mark.parametrize("arm", ARM_READERS)
def test_every_arm(architecture: str, arm: str) -> None:
    seen = Comparison()
    engine = tiny_engine(architecture)
    for seed, bonus in enumerate(get_args(BonusMode)):
        both = views(seed)
        options: dict[str, Any] = {"bonus": bonus, "num_draft_tokens": 3, "beta": 1.0 + seed / 2}
        result = run(engine, both, arm=arm, max_tokens=30, **options)
        compare(result, naive_arm(architecture, both, arm, AsymSpecOptions.of(**options)), seen)
        assert result.report.mode == arm or result.report.mode == "strict"
        assert result.report.fallback is None
    seen.check_excuses()
    if ARM_READERS[arm][1] is None:
        assert (seen.num_accepted, seen.num_refused) == (0, 0)
    else:
        assert seen.num_accepted > 0
        assert seen.num_refused > 0


@by_architecture
def test_the_paper_preset(architecture: str) -> None:
    options = AsymSpecOptions.paper()
    assert (options.bonus, options.identical_views) == ("verifier", "gate")
    seen = Comparison()
    _check(architecture, range(3), 24, seen, bonus="verifier", identical_views="gate")
    seen.check_excuses()


@by_architecture
def test_reused_prefixes_change_no_token(architecture: str) -> None:
    """The same and continued prompts again, on one engine that keeps its caches."""
    engine = tiny_engine(architecture)
    seen = Comparison()
    options = AsymSpecOptions.of()
    full, compressed = views(3)
    for _ in range(4):
        result = run(engine, (full, compressed), max_tokens=9)
        compare(result, naive_asymspec(architecture, (full, compressed), options), seen)
        assert run(engine, (full, compressed), max_tokens=9).tokens == result.tokens
        full, compressed = full + result.tokens[:7] + [1, 2], compressed + result.tokens[:7] + [1, 2]
    seen.check_excuses()


finite = st.floats(-6, 6, width=32)


@given(
    data=st.data(),
    gate=st.sampled_from(get_args(Gate)),
    delta=st.sampled_from(get_args(Delta)),
    beta=st.sampled_from([0.0, 0.7, 1.0, 4.0]),
    gamma=st.sampled_from([0.0, 0.5, 1.0, 3.0]),
    plausibility=st.sampled_from([0.0, 0.1]),
    scale=st.sampled_from([None, 4.0]),
    agreement=st.booleans(),
    place=st.integers(1, 4),
)
def test_the_naive_rule_is_the_oracle_s(
    data: st.DataObject,
    gate: Gate,
    delta: Delta,
    beta: float,
    gamma: float,
    plausibility: float,
    scale: float | None,
    agreement: bool,
    place: int,
) -> None:
    """Two independent writings of the formulas agree, wherever neither is at a tie."""
    rule = Rule(gate, delta, beta, gamma, 0.4, scale, plausibility, agreement)
    logits = [data.draw(st.lists(finite, min_size=5, max_size=5)) for _ in range(3)]
    t, a, b = (oracle.log_softmax(row) for row in logits)
    draft = data.draw(st.integers(0, 4))
    mine = judge(rule, draft, place, np.array(t), np.array(a), np.array(b))
    theirs = oracle.judge(rule, t, a, b, draft, place)
    if min(mine.margin, theirs.margin, theirs.token_margin) > 1e-9:
        assert mine.accepted == theirs.accepted
        assert mine.fused == theirs.token
        assert gate == "strict" or abs(mine.divergence - theirs.divergence) < 1e-9
