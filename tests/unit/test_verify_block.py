"""Whole blocks: shapes and counts, padding, inputs that may be missing, and no waiting for the device."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
from typing import get_args

import pytest
import torch

from asymspec_agents.decoding import rule as rule_module
from asymspec_agents.decoding.modes import MODES, Delta, Gate, Rule, named_rule
from asymspec_agents.decoding.rule import RowParameters, divergence, log_probs, verify_block
from tests.unit.test_rule import logits, one

INF = math.inf


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
    views = itertools.permutations([small, wide, wide])
    for (t, a, b), vocab_size in itertools.product(views, (None, 3, 6, 100)):  # a tokenizer may be larger
        result = verify_block(Rule(gamma=1.0), torch.tensor([[1]]), a, b, t, vocab_size=vocab_size)
        assert result.tokens.tolist() == [[0]]
        assert result.divergence.tolist() == [[0.0]]
    assert log_probs(wide, 3)[0, 0].tolist() == pytest.approx([-math.log(3)] * 3)


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
    for gate, delta in itertools.product(get_args(Gate), get_args(Delta)):
        result = verify_block(Rule(gate, delta), drafts, x, x, wide, num_drafts=counts, vocab_size=5)
        assert result.tokens.shape == (2, 4)
        assert result.tokens.device.type == "meta"
    for rule in (Rule(agreement=True), Rule("fused_greedy", scale=2.0)):
        assert verify_block(rule, drafts, x, x, x).tokens.shape == (2, 3)


def test_the_module_calls_nothing_that_waits_for_the_device() -> None:
    waits = {"item", "tolist", "cpu", "numpy", "nonzero", "unique", "masked_select", "synchronize"}
    calls = list(ast.walk(ast.parse(inspect.getsource(rule_module))))
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
