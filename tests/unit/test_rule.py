"""The decoding rule on inputs small enough to check by hand."""

from __future__ import annotations

import itertools
import math
from typing import get_args

import pytest
import torch
from torch import Tensor

from asymspec_agents.decoding.modes import Delta, Gate, Rule
from asymspec_agents.decoding.rule import (
    BlockResult,
    RowParameters,
    accept,
    divergence,
    log_probs,
    score,
    verify_block,
)

INF = math.inf


def logits(*probabilities: float) -> Tensor:
    """[1, 1, vocab] logits of one position, shifted: only differences count."""
    return torch.tensor([[[math.log(p) + 3 if p > 0 else -INF for p in probabilities]]])


def one(rule: Rule, draft: int, t: Tensor, a: Tensor, b: Tensor, places: int = 1) -> BlockResult:
    """A block with the same position `places` times over."""
    t, a, b = (x.expand(1, places, -1) for x in (t, a, b))
    return verify_block(rule, torch.full((1, places), draft), a, b, t)


def spread(p: float, vocab: int) -> Tensor:
    """Id 0 with probability p, the others alike."""
    return logits(p, *[(1 - p) / (vocab - 1)] * (vocab - 1))


# Exact thresholds (invariant 3)


@pytest.mark.parametrize("vocab", [2, 3, 4, 8, 16, 64])
@pytest.mark.parametrize("gamma", [0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("p_base", [0.5, 0.25, 0.1, 0.3, 2.0**-10, 1e-10])
def test_a_probability_equal_to_the_threshold_is_refused(vocab: int, gamma: float, p_base: float) -> None:
    for gate in ("cda", "fixed", "position"):
        for factor, accepted in ((1.0, 0), (1 + 2e-4, 1), (1 - 2e-4, 0)):
            p_verifier = gamma * p_base * factor
            if p_verifier < 1:
                b = spread(p_base, vocab)
                result = one(Rule(gate, gamma=gamma), 0, spread(p_verifier, vocab), b, b)
                assert result.num_accepted.item() == accepted, (gate, factor)


@pytest.mark.parametrize(("place", "halving"), [(1, 0.5), (2, 2**-0.5), (3, 2 ** (-1 / 3))])
@pytest.mark.parametrize("gamma", [0.5, 1.0, 1.5])
def test_disjoint_views_scale_the_threshold(place: int, halving: float, gamma: float) -> None:
    a, b = logits(0.0, 0.0, 1.0), logits(0.4, 0.6, 0.0)
    scales: dict[Gate, float] = {"cda": 0.5, "position": halving, "fixed": 1.0}
    for gate, scale in scales.items():
        for factor, accepted in ((1.0, False), (1 + 1e-4, True), (1 - 1e-4, False)):
            p = gamma * scale * 0.4 * factor
            t = logits(p, 1 - p, 0.0)
            rule = Rule(gate, "context", gamma=gamma)
            views = (log_probs(x).expand(1, place, -1) for x in (t, a, b))
            stands, _ = accept(
                rule, RowParameters.of(rule, 1, t.device), torch.zeros(1, place, dtype=torch.long), *views
            )
            assert stands[0, place - 1].item() is accepted, (gate, factor)


def test_equality_counts_as_enough_for_slack_and_plausibility() -> None:
    for p_best, share in itertools.product((0.3, 0.5, 0.6), (0.1, 0.25, 1 / 3, 0.5)):
        t = logits(p_best, p_best * share, 1 - p_best - p_best * share)
        if p_best * share < 1 - p_best - p_best * share < p_best:
            assert one(Rule("slack", "none", slack=share), 1, t, t, t).num_accepted.item() == 1
            kept = score(
                Rule(plausibility=share),
                RowParameters.of(Rule(plausibility=share), 1, t.device),
                *[log_probs(t)] * 3,
            )
            assert kept[0, 0, 1].item() > -INF


@pytest.mark.parametrize("gate", ["cda", "fixed", "position"])
def test_gamma_zero_accepts_whatever_the_verifier_can_say(gate: Gate) -> None:
    b = logits(0.9, 0.05, 0.05)
    rare = torch.tensor([[[-200.0, 0.0, 0.0]]])  # a probability fp32 cannot hold
    assert one(Rule(gate, gamma=0.0), 0, rare, b, b).num_accepted.item() == 1
    assert one(Rule(gate, gamma=0.0), 0, logits(0.0, 0.5, 0.5), b, b).num_accepted.item() == 0
    nothing = logits(0.0, 0.5, 0.5)
    assert one(Rule(gate, gamma=0.0), 0, logits(0.1, 0.4, 0.5), b, nothing).num_accepted.item() == 1


def test_small_probabilities_are_compared_in_log_space() -> None:
    for p in (1e-10, 1e-30):
        b = logits(p, 0.5, 0.5 - p)
        assert one(Rule(gamma=1.0), 0, logits(2 * p, 0.5, 0.5), b, b).num_accepted.item() == 1
        assert one(Rule(gamma=1.0), 0, logits(p / 2, 0.5, 0.5), b, b).num_accepted.item() == 0


# Scores


def test_the_score_of_every_delta() -> None:
    p, q, r = (0.5, 0.3, 0.2), (0.1, 0.7, 0.2), (0.25, 0.25, 0.5)
    t, a, b = (log_probs(logits(*x)) for x in (p, q, r))
    deltas: dict[Delta, list[float]] = {
        "context": [math.log(y / z) for y, z in zip(q, r, strict=True)],
        "full": [math.log(y) for y in q],
        "scd": [math.log(x / z) for x, z in zip(p, r, strict=True)],
        "none": [0.0] * 3,
    }
    for delta, values in deltas.items():
        rule = Rule("cda", delta, beta=1.5)
        s = score(rule, RowParameters.of(rule, 1, t.device), t, a, b)[0, 0].tolist()
        assert s == pytest.approx([math.log(x) + 1.5 * d for x, d in zip(p, values, strict=True)], abs=1e-5)


def test_beta_zero_fuses_to_the_verifiers_best() -> None:
    t, a, b = logits(0.2, 0.7, 0.1), logits(0.9, 0.05, 0.05), logits(0.05, 0.05, 0.9)
    for delta in get_args(Delta):
        assert one(Rule("fused_greedy", delta, beta=0.0), 2, t, a, b).tokens.tolist() == [[1]]


def test_scale_grows_with_the_divergence_up_to_beta() -> None:
    a, b, t = logits(0.8, 0.2), logits(0.2, 0.8), logits(0.4, 0.6)
    la, lb, lt = (log_probs(x) for x in (a, b, t))
    jsd = divergence(la, lb).item()
    for scale in (0.1, 1.0, 4.0, 100.0):
        rule = Rule("fused_greedy", "context", beta=2.0, scale=scale)
        s = score(rule, RowParameters.of(rule, 1, t.device), lt, la, lb)[0, 0]
        beta = 2.0 * min(1.0, scale * jsd / math.log(2))
        assert s.tolist() == pytest.approx((lt + beta * (la - lb))[0, 0].tolist(), abs=1e-5)


def test_plausibility_keeps_the_unlikely_out_of_the_fusion() -> None:
    t, a, b = logits(0.6, 0.39, 0.01), logits(0.01, 0.01, 0.98), logits(0.49, 0.5, 0.01)
    tokens = [one(Rule(gamma=4.0, plausibility=alpha), 0, t, a, b).tokens.item() for alpha in (0.0, 0.1, 0.9)]
    assert tokens == [2, 0, 0]


def test_where_no_token_is_eligible_the_verifiers_plausible_ones_are() -> None:
    t, a = logits(0.6, 0.3, 0.1, 0.0, 0.0), logits(0.0, 0.0, 0.0, 0.5, 0.5)
    assert one(Rule("fused_greedy", "full"), 3, t, a, a).tokens.item() == 0
    assert one(Rule("cda", "scd", gamma=4.0), 3, t, a, a).tokens.item() == 0
    lenient = Rule("slack", "full", slack=0.01, plausibility=0.4)
    assert [one(lenient, draft, t, a, a).num_accepted.item() for draft in range(3)] == [1, 1, 0]


def test_infinities_meet_each_rule_of_the_numerics() -> None:
    t = log_probs(logits(0.4, 0.3, 0.2, 0.1, 0.0))
    a = log_probs(logits(0.0, 0.4, 0.0, 0.3, 0.3))
    b = log_probs(logits(0.2, 0.0, 0.0, 0.4, 0.4))
    zero = {"context": [True, True, True, False], "full": [], "scd": [], "none": [True] * 4}
    excluded = {"context": {4}, "full": {0, 2, 4}, "scd": {1, 2, 4}, "none": {4}}
    for delta in get_args(Delta):
        for beta in (0.0, 1.0):  # 0·(−inf) must not become NaN
            rule = Rule("cda", delta, beta=beta)
            s = score(rule, RowParameters.of(rule, 1, t.device), t, a, b)[0, 0]
            assert {i for i in range(5) if s[i] == -INF} == excluded[delta]
            assert not s.isnan().any()
            for token, unchanged in enumerate(zero[delta]):
                if unchanged:
                    assert s[token] == t[0, 0, token]


@pytest.mark.parametrize("gate", get_args(Gate))
def test_a_forbidden_token_is_never_emitted(gate: Gate) -> None:
    t = logits(0.0, 0.7, 0.3)  # the drafter insists on id 0
    a = b = logits(0.998, 0.001, 0.001)
    for delta, agreement in itertools.product(get_args(Delta), (False, True)):
        rule = Rule(gate, delta, gamma=0.0, beta=4.0, slack=1e-6, agreement=agreement)
        result = one(rule, 0, t, a, b)
        assert (result.num_accepted.item(), result.num_fused.item()) == (0, 1)
        assert result.tokens.item() != 0


def test_agreement_does_not_make_a_forbidden_draft_stand() -> None:
    t, a = logits(0.0, 0.7, 0.3), logits(0.1, 0.8, 0.1)
    rule = Rule("fused_greedy", "context", agreement=True)
    assert one(rule, 0, t, a, a).num_accepted.item() == 0


def test_agreement_accepts_where_drafter_and_verifier_have_the_same_best() -> None:
    t, a, b = logits(0.5, 0.3, 0.2), logits(0.5, 0.3, 0.2), logits(0.98, 0.01, 0.01)
    for gate in ("cda", "fixed", "position"):
        assert one(Rule(gate, gamma=4.0), 0, t, a, b).num_accepted.item() == 0
        assert one(Rule(gate, gamma=4.0, agreement=True), 0, t, a, b).num_accepted.item() == 1
    other = logits(0.3, 0.5, 0.2)
    assert one(Rule(gamma=4.0, agreement=True), 0, t, other, b).num_accepted.item() == 0


def test_strict_stays_lossless_under_agreement() -> None:
    t, a = logits(0.5, 0.3, 0.2), logits(0.5, 0.3, 0.2)
    assert one(Rule("strict", "none", agreement=True), 1, t, a, a).tokens.item() == 0


# Ties


@pytest.mark.parametrize("gate", get_args(Gate))
@pytest.mark.parametrize("vocab", [4, 17, 64, 1000])
def test_ties_go_to_the_lowest_id(gate: Gate, vocab: int) -> None:
    tied = torch.zeros(1, 1, vocab)
    tied[..., 0] = -1.0
    for delta in get_args(Delta):
        refused = one(Rule(gate, delta, gamma=4.0), 0, tied, tied, tied)
        assert (refused.num_fused.item(), refused.tokens.item()) == (1, 1)
    for exact in ("fused_greedy", "strict"):
        assert one(Rule(exact, "context"), 1, tied, tied, tied).num_accepted.item() == 1
        assert one(Rule(exact, "context"), 2, tied, tied, tied).num_accepted.item() == 0
    bonus = verify_block(Rule(), torch.zeros(1, 0, dtype=torch.long), None, None, tied)
    assert bonus.tokens.tolist() == [[1]]
