"""What every block keeps, whatever its gate: counts, bounds, masks, no influence of other rows or places."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.decoding.modes import Gate, Rule
from asymspec_agents.decoding.rule import RowParameters, accept, divergence, log_probs, verify_block
from tests.property import oracle
from tests.property.cases import GATES, KINDS, Case, cases, examples, forbid, logits_of, outcome


@pytest.mark.parametrize("gate", GATES)
def test_what_every_block_keeps(gate: Gate) -> None:
    """No NaN, no forbidden or padded id, counts that add up, −1 behind the last token."""

    @examples(120)
    @given(case=cases(gate))
    def check(case: Case) -> None:
        result = case.run()
        counted = result.num_accepted + result.num_fused + result.num_bonus
        assert torch.equal(result.num_tokens, counted)
        assert result.divergence.dtype == torch.float32
        assert result.tokens.dtype == torch.int64
        assert bool(((result.divergence >= 0) & (result.divergence <= math.log(2))).all())  # NaN fails
        assert torch.equal(result.num_judged, result.num_accepted + result.num_fused)
        assert bool((result.num_judged <= case.num_drafts).all())
        for row in range(len(case.rules)):
            tokens = result.tokens[row].tolist()
            emitted, rest = tokens[: int(counted[row])], tokens[int(counted[row]) :]
            assert set(rest) <= {-1}
            assert all(0 <= token < case.vocab_size for token in emitted)
            for place, token in enumerate(emitted):
                assert case.t[row, place, token] > -math.inf

    check()


@pytest.mark.parametrize("gate", GATES)
def test_a_batch_is_its_rows(gate: Gate) -> None:
    @examples(60)
    @given(case=cases(gate))
    def compare(case: Case) -> None:
        whole = case.run()
        for row in range(len(case.rules)):
            here = slice(row, row + 1)
            count = int(case.num_drafts[row])  # also without the padding the batch needed
            alone = replace(
                case,
                rules=case.rules[here],
                drafts=case.drafts[here, :count],
                num_drafts=case.num_drafts[here],
                t=case.t[here, : count + (case.bonus == "verifier")],
                a=case.a[here, :count],
                b=case.b[here, :count],
            ).run()
            assert outcome(alone, 0) == outcome(whole, row)
            assert alone.divergence[0].tolist() == pytest.approx(
                whole.divergence[row, :count].tolist(), abs=1e-6
            )

    compare()


@pytest.mark.parametrize("gate", GATES)
def test_what_lies_behind_a_refusal_or_a_draft_does_not_matter(gate: Gate) -> None:
    @examples(60)
    @given(case=cases(gate), seed=st.integers(0, 2**32 - 1))
    def compare(case: Case, seed: int) -> None:
        before = case.run()
        rng = np.random.default_rng(seed)
        drafts, t, a, b = case.drafts.clone(), case.t.clone(), case.a.clone(), case.b.clone()
        for row in range(len(case.rules)):
            end = int(before.num_judged[row])
            if not before.num_fused[row]:
                continue
            drafts[row, end:] = int(rng.integers(case.vocab_size))
            for x in (t, a, b):
                x[row, end:] = x[row, end:].flip(-1).nan_to_num(1.0)
        after = replace(case, drafts=drafts, t=t, a=a, b=b).run()
        for row in range(len(case.rules)):
            assert outcome(after, row) == outcome(before, row)

    compare()


seeds = st.integers(0, 2**32 - 1)


@examples(150)
@given(seed=seeds, kind=st.sampled_from(KINDS), share=st.sampled_from([0.0, 0.5]), beta=st.floats(0, 4))
def test_equal_drafter_views_have_no_divergence_and_fuse_to_the_verifier(
    seed: int, kind: str, share: float, beta: float
) -> None:
    """Invariant 1: a == b gives D = 0 and δ = 0 exactly."""
    rng = np.random.default_rng(seed)
    vocab = int(rng.integers(2, 40))
    a = torch.from_numpy(forbid(rng, logits_of(rng, kind, (2, 3, vocab)), share)).float()
    t = torch.from_numpy(forbid(rng, logits_of(rng, kind, (2, 3, vocab)), share)).float()
    drafts = torch.from_numpy(rng.integers(vocab, size=(2, 3)))
    greedy = log_probs(t).argmax(dim=-1)
    for gate in GATES:
        for scale in (None, 4.0):
            rule = Rule(gate, "context", beta=beta, gamma=4.0, scale=scale)
            result = verify_block(rule, drafts, a, a.clone(), t)
            assert result.divergence.tolist() == torch.zeros(2, 3).tolist()
            for row in range(2):
                if result.num_fused[row]:
                    place = int(result.num_accepted[row])
                    assert result.tokens[row, place] == greedy[row, place]


@examples(150)
@given(seed=seeds, kind=st.sampled_from(KINDS), shares=st.tuples(*[st.sampled_from([0.0, 0.3, 0.9])] * 2))
def test_divergence_is_symmetric_and_bounded(seed: int, kind: str, shares: tuple[float, float]) -> None:
    """Invariant 2, first half."""
    rng = np.random.default_rng(seed)
    vocab = int(rng.integers(2, 60))
    a, b = (
        log_probs(torch.from_numpy(forbid(rng, logits_of(rng, kind, (4, vocab)), share))) for share in shares
    )
    ab, ba = divergence(a, b), divergence(b, a)
    assert torch.equal(ab, ba)
    assert bool(((ab >= 0) & (ab <= math.log(2))).all())
    exact = [oracle.jsd(x.double().numpy(), y.double().numpy()) for x, y in zip(a, b, strict=True)]
    assert ab.tolist() == pytest.approx(exact, abs=3e-6)


@examples(100)
@given(seed=seeds, kind=st.sampled_from(KINDS), gamma=st.floats(0.01, 4), side=st.sampled_from([-1, 1]))
def test_disjoint_views_halve_gamma(seed: int, kind: str, gamma: float, side: int) -> None:
    """Invariant 2, second half: the threshold is γ/2 under `cda`, γ·2^(−1/i) under `position`."""
    rng = np.random.default_rng(seed)
    places, vocab = 3, 6
    left, right = (logits_of(rng, kind, (1, places, vocab)) for _ in range(2))
    left[..., 3:], right[..., :3] = -np.inf, -np.inf
    a, b = (torch.from_numpy(x).float() for x in (left, right))
    draft = 3 + int(rng.integers(3))
    base = log_probs(b)[0, :, draft].double()
    both: tuple[Gate, ...] = ("cda", "position")
    for gate in both:
        exponent = torch.ones(places) if gate == "cda" else 1 / torch.arange(1, places + 1)
        wanted = base + math.log(gamma) - math.log(2) * exponent + side * 1e-3
        if float(wanted.max()) > -1e-2:
            continue  # no probability is that large
        t = torch.full((1, places, vocab), -math.inf, dtype=torch.float64)
        t[0, :, draft] = wanted
        t[0, :, 0] = torch.log(-torch.expm1(wanted))  # the rest of the probability
        rule = Rule(gate, "context", gamma=gamma)
        drafts = torch.full((1, places), draft)
        stands, jsd = accept(
            rule, RowParameters.of(rule, 1, t.device), drafts, t.float(), *map(log_probs, (a, b))
        )
        assert jsd.tolist()[0] == pytest.approx([math.log(2)] * places, abs=1e-6)
        assert stands.tolist() == [[side > 0] * places]
