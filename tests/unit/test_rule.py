"""The decoding rule on inputs small enough to check by hand."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
from collections.abc import Sequence
from typing import get_args

import pytest
import torch
from torch import Tensor

from asymspec_agents.decoding import rule as rule_module
from asymspec_agents.decoding.modes import MODES, Delta, Gate, Rule, named_rule
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
NOT_STRICT = [gate for gate in get_args(Gate) if gate != "strict"]


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
    for gate, scale in (("cda", 0.5), ("position", halving), ("fixed", 1.0)):
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
    deltas = {
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


# Blocks


def test_a_refusal_ends_the_block_and_the_verifiers_token_completes_a_full_one() -> None:
    base = torch.zeros(3, 2, 4)
    t = torch.zeros(3, 3, 4)
    t[0, 1, 3] = t[1, 0, 3] = 20.0  # row 0 refuses its second draft, row 1 its first
    t[:, 2, 2] = 20.0
    drafts = torch.tensor([[0, 1], [0, 1], [0, 1]])
    result = verify_block(Rule(gamma=0.9), drafts, base, base, t)
    assert result.tokens.tolist() == [[0, 3, -1], [3, -1, -1], [0, 1, 2]]
    assert result.num_tokens.tolist() == [2, 1, 3]
    assert result.num_accepted.tolist() == [1, 0, 2]
    assert result.num_fused.tolist() == [1, 1, 0]
    assert result.num_bonus.tolist() == [0, 0, 1]
    assert result.num_judged.tolist() == [2, 1, 2]
    without = verify_block(Rule(gamma=0.9), drafts, base, base, t[:, :2])
    assert without.tokens.tolist() == [[0, 3], [3, -1], [0, 1]]
    assert without.num_bonus.tolist() == [0, 0, 0]


def test_a_fused_token_equal_to_the_draft_still_ends_the_block() -> None:
    t, a, b = logits(0.4, 0.3, 0.3), logits(0.9, 0.05, 0.05), logits(0.8, 0.1, 0.1)
    result = one(Rule("fixed", "context", gamma=1.0), 0, t, a, b, places=3)
    assert result.tokens.tolist() == [[0, -1, -1]]
    assert (result.num_accepted.item(), result.num_fused.item()) == (0, 1)


def test_rows_with_fewer_drafts_do_not_get_a_bonus_nobody_asked_for() -> None:
    x = torch.zeros(3, 3, 5)
    drafts = torch.tensor([[0, 1, 2], [3, -1, -1], [3, 4, 999]])
    counts = torch.tensor([3, 1, 2])
    rule = Rule(gamma=0.5)
    assert verify_block(rule, drafts, x, x, x, num_drafts=counts).tokens.tolist() == [
        [0, 1, 2],
        [3, -1, -1],
        [3, 4, -1],
    ]
    t = torch.cat([x, x[:, :1]], dim=1)
    t[1, 1, 4] = t[2, 2, 1] = 9.0  # the position behind a row's own drafts, not the last one
    with_bonus = verify_block(rule, drafts, x, x, t, num_drafts=counts)
    assert with_bonus.tokens.tolist() == [[0, 1, 2, 0], [3, 4, -1, -1], [3, 4, 1, -1]]
    assert with_bonus.num_bonus.tolist() == [1, 1, 1]


def test_a_draft_outside_the_vocabulary_is_refused() -> None:
    x = torch.zeros(1, 1, 6)
    x[..., 2] = 1.0
    for gate, draft in itertools.product(get_args(Gate), (-1, 5, 6, 10**9)):
        result = verify_block(Rule(gate, gamma=0.0), torch.tensor([[draft]]), x, x, x, vocab_size=5)
        assert result.tokens.tolist() == [[2]]
        assert (result.num_accepted.item(), result.num_fused.item()) == (0, 1)


def test_padding_ids_have_no_probability_and_are_never_emitted() -> None:
    small = torch.zeros(1, 1, 3)
    wide = torch.cat([small, torch.full((1, 1, 5), 1e4)], dim=-1)
    for t, a, b in itertools.permutations([small, wide, wide]):
        result = one_padded(Rule(gamma=1.0), t, a, b)
        assert result.tokens.tolist() == [[0]]
        assert result.divergence.tolist() == [[0.0]]
    assert log_probs(wide, 3)[0, 0].tolist() == pytest.approx([-math.log(3)] * 3)


def one_padded(rule: Rule, t: Tensor, a: Tensor, b: Tensor) -> BlockResult:
    """A block of one draft whose three distributions differ in width."""
    return verify_block(rule, torch.tensor([[1]]), a, b, t)


def test_a_block_without_drafts_needs_no_drafter() -> None:
    t = torch.randn(2, 1, 7)
    for rule in MODES.values():
        result = verify_block(rule, torch.zeros(2, 0, dtype=torch.long), None, None, t)
        assert result.tokens.tolist() == t.argmax(dim=-1).tolist()
        assert result.num_bonus.tolist() == [1, 1]
        assert result.divergence.shape == (2, 0)


def test_an_empty_batch_gives_an_empty_result() -> None:
    x = torch.zeros(0, 2, 5)
    assert verify_block(Rule(), torch.zeros(0, 2, dtype=torch.long), x, x, x).tokens.shape == (0, 2)


@pytest.mark.parametrize("positions", [0, 1, 4])
def test_any_other_number_of_verifier_positions_is_an_error(positions: int) -> None:
    x = torch.zeros(1, 2, 5)
    with pytest.raises(ValueError, match="2 drafts"):
        verify_block(Rule(), torch.zeros(1, 2, dtype=torch.long), x, x, torch.zeros(1, positions, 5))


def structures() -> list[Rule]:
    """Every gate with every delta, scaled or not, with agreement or not."""
    return [
        Rule(gate, delta, scale=scale, agreement=agreement)
        for gate, delta, scale, agreement in itertools.product(
            get_args(Gate), get_args(Delta), (None, 2.0), (False, True)
        )
    ]


def test_a_rule_runs_on_just_the_distributions_it_names_and_refuses_less() -> None:
    x = torch.randn(1, 2, 5)
    drafts = torch.tensor([[1, 2]])
    for rule in structures():
        a = x if rule.needs_drafter else None
        b = x.flip(-1) if rule.needs_base else None
        whole = verify_block(rule, drafts, x, x.flip(-1), x)
        assert verify_block(rule, drafts, a, b, x).tokens.tolist() == whole.tokens.tolist()
        if rule.needs_drafter:
            with pytest.raises(ValueError, match="drafter"):
                verify_block(rule, drafts, None, b, x)
        if rule.needs_base:
            with pytest.raises(ValueError, match="base"):
                verify_block(rule, drafts, a, None, x)


def test_rows_may_have_parameters_of_their_own() -> None:
    t, a, b = logits(0.3, 0.7), logits(0.6, 0.4), logits(0.6, 0.4)
    gammas = [0.1, 0.4, 0.6, 2.0]
    row = torch.ones(4)
    parameters = RowParameters(row, torch.tensor(gammas), row, row, torch.zeros(4))
    views = [x.expand(4, 1, -1) for x in (a, b, t)]
    result = verify_block(Rule(), torch.zeros(4, 1, dtype=torch.long), *views, parameters=parameters)
    assert result.num_accepted.tolist() == [int(0.6 * gamma < 0.3) for gamma in gammas]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_any_dtype_is_judged_in_fp32(dtype: torch.dtype) -> None:
    x = torch.tensor([[[1.0, 2.0, 3.0]]], dtype=dtype)
    assert log_probs(x).dtype == torch.float32
    result = verify_block(Rule(gamma=0.5), torch.tensor([[2]]), x, x, x)
    assert result.divergence.dtype == torch.float32
    assert result.tokens.tolist() == [[2]]


@pytest.mark.parametrize("vocab", [2, 3, 7, 8, 15, 16, 31, 33, 1000, 50_000])
def test_equal_distributions_have_exactly_no_divergence(vocab: int) -> None:
    x = log_probs(torch.randn(2, 3, vocab, generator=torch.Generator().manual_seed(vocab)) * 8)
    x[0, 0, 1:] = -INF
    assert divergence(x, x.clone()).tolist() == [[0.0] * 3] * 2


def test_the_inputs_are_left_as_they_are() -> None:
    tensors = [torch.randn(2, 3, 6) for _ in range(3)]
    drafts = torch.randint(6, (2, 3))
    copies = [x.clone() for x in (*tensors, drafts)]
    for rule in structures():
        verify_block(rule, drafts, tensors[0], tensors[1], tensors[2])
    assert all(torch.equal(x, y) for x, y in zip(copies, (*tensors, drafts), strict=True))


# No host synchronisation


def test_no_value_leaves_the_device() -> None:
    """Tensors on `meta` have no values: any .item(), .tolist() or `if tensor` raises."""
    x = torch.zeros(2, 3, 6, device="meta")
    wide = torch.zeros(2, 4, 9, device="meta", dtype=torch.bfloat16)
    drafts = torch.zeros(2, 3, device="meta", dtype=torch.long)
    counts = torch.zeros(2, device="meta", dtype=torch.long)
    for rule in structures():
        for t, num_drafts in ((x, None), (wide, counts)):
            result = verify_block(rule, drafts, x, x, t, num_drafts=num_drafts, vocab_size=5)
            assert result.tokens.shape == (2, t.shape[1])
            assert result.tokens.device.type == "meta"


def test_the_module_calls_nothing_that_waits_for_the_device() -> None:
    waits = {"item", "tolist", "cpu", "numpy", "nonzero", "unique", "masked_select", "synchronize"}
    calls: Sequence[ast.AST] = list(ast.walk(ast.parse(inspect.getsource(rule_module))))
    names = {
        node.func.attr
        for node in calls
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    }
    assert names.isdisjoint(waits)
    assert not [
        n for n in calls if isinstance(n, ast.Call) and getattr(n.func, "id", "") in ("bool", "int", "float")
    ]


def test_named_modes_decode_as_their_pairs() -> None:
    x = [torch.randn(4, 3, 8, generator=torch.Generator().manual_seed(seed)) * 2 for seed in range(3)]
    drafts = x[0].argmax(dim=-1)
    for mode, rule in MODES.items():
        pair = Rule(rule.gate, rule.delta, scale=rule.scale, beta=1.5)
        named = verify_block(named_rule(mode, beta=1.5), drafts, *x)
        assert named.tokens.tolist() == verify_block(pair, drafts, *x).tokens.tolist()
