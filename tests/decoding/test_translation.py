"""Logits and drafts between two vocabularies, and what the rule makes of them."""

from __future__ import annotations

import math

import pytest
import torch

from asymspec_agents.decoding.modes import Rule
from asymspec_agents.decoding.rule import log_probs, verify_block
from asymspec_agents.decoding.translation import Translation
from asymspec_agents.decoding.vocab import VocabMap

PAIRS = {0: 3, 2: 0, 3: 5, 5: 1}
MAP = VocabMap(tuple(PAIRS), tuple(PAIRS.values()), 6, 7, "", "")


def _logits(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * 3


def test_logits_stand_at_their_counterparts_and_nowhere_else() -> None:
    logits = _logits(2, 3, 8)  # padded
    translation = Translation(MAP, 6, 7)
    assert translation.num_mapped == 4
    found = translation.logits(logits)
    assert found.shape == (2, 3, 6)
    for token in range(6):
        expected = logits[..., PAIRS[token]] if token in PAIRS else torch.full((2, 3), -math.inf)
        torch.testing.assert_close(found[..., token], expected, rtol=0, atol=0)
    assert found.to(torch.bfloat16).dtype == translation.logits(logits.bfloat16()).dtype


def test_drafts_are_the_drafters_ids_of_mapped_tokens() -> None:
    translation = Translation(MAP, 6, 7)
    drafts = translation.logits(_logits(5, 4, 7)).argmax(dim=-1)
    assert set(drafts.flatten().tolist()) <= set(PAIRS)
    own = translation.ids(drafts)
    assert own.tolist() == [[PAIRS[token] for token in row] for row in drafts.tolist()]


def test_pairs_beyond_the_smaller_vocabulary_are_left_out() -> None:
    translation = Translation(MAP, 4, 4)
    assert translation.num_mapped == 2
    found = translation.logits(_logits(1, 4))
    assert torch.isfinite(found).tolist() == [[True, False, True, False]]


@pytest.mark.parametrize("gate", ["cda", "fixed", "fused_greedy"])
def test_the_rule_steers_mapped_tokens_only(gate: str) -> None:
    """A fused token is argmax of t + beta (a - b) with both normalised over the pairs, and t elsewhere."""
    translation = Translation(MAP, 6, 7)
    mapped = torch.tensor([token in PAIRS for token in range(6)])
    own = torch.tensor(list(PAIRS.values()))
    steered = unsteered = 0
    for seed in range(60):
        small_full, small_short, large = (_logits(1, 1, 7, seed=3 * seed + i) for i in range(3))
        a, b = translation.logits(small_full), translation.logits(small_short)
        rule = Rule(gate, "context", gamma=4.0)  # type: ignore[arg-type]
        drafts = a.argmax(dim=-1)
        result = verify_block(rule, drafts, a, b, large[..., :6], vocab_size=6)
        if int(result.num_fused) == 0:
            continue
        shift = torch.zeros(6)
        a_norm = torch.log_softmax(small_full[0, 0, own], dim=-1)
        b_norm = torch.log_softmax(small_short[0, 0, own], dim=-1)
        shift[mapped] = a_norm - b_norm
        expected = int((log_probs(large[0, 0, :6]) + shift).argmax())
        assert result.tokens.tolist() == [[expected]]
        steered += expected in PAIRS
        unsteered += expected not in PAIRS
    assert steered
    assert unsteered
