"""The decoding rule against the float64 oracle, position by position and block by block, on random batches.

A disagreement with the oracle is excused only where the oracle itself was within TOLERANCE of another
outcome, and the tests bound how many they excuse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from asymspec_agents.decoding.modes import Gate
from asymspec_agents.decoding.rule import accept, divergence, log_probs, score
from tests.property import oracle
from tests.property.cases import GATES, Array, Case, cases, examples, outcome

TOLERANCE = 1e-4  # nats; what "token-identical" excuses
MAX_EXCUSED = 0.003  # of the rows compared


@dataclass
class Tally:
    """What a test saw: enough of everything, and few excuses."""

    rows: int = 0
    excused: int = 0
    accepted: int = 0
    fused: int = 0
    bonus: int = 0
    notes: list[str] = field(default_factory=list)

    def check(self) -> None:
        assert self.excused <= 1 + MAX_EXCUSED * self.rows, (self.excused, self.rows, self.notes)


@pytest.mark.parametrize("gate", GATES)
def test_verify_block_is_the_oracle(gate: Gate) -> None:
    tally = Tally()

    @examples(250)
    @given(case=cases(gate))
    def compare(case: Case) -> None:
        result = case.run()
        for row in range(len(case.rules)):
            expected = case.expected(row)
            got = outcome(result, row)
            tally.rows += 1
            if got != (expected.tokens, expected.num_accepted, expected.num_fused, expected.num_bonus):
                assert expected.margin < TOLERANCE, (case.rules[row], got, expected)
                tally.excused += 1
                tally.notes.append(f"{expected.margin:.1e}")
                continue
            judged = int(result.num_judged[row])
            assert judged == len(expected.divergences)
            assert result.divergence[row, :judged].tolist() == pytest.approx(expected.divergences, abs=3e-6)
            tally.accepted += expected.num_accepted
            tally.fused += expected.num_fused
            tally.bonus += expected.num_bonus

    compare()
    tally.check()
    assert min(tally.accepted, tally.fused, tally.bonus) > 50, tally


def _position(case: Case, row: int, place: int) -> tuple[Array, Array, Array]:
    t, a, b = (
        oracle.log_softmax(x[row, place, : case.vocab_size].double().numpy())
        for x in (case.t, case.a, case.b)
    )
    return t, a, b


@examples(150)
@given(data=st.data())
def test_score_accept_and_divergence_are_the_oracles(data: st.DataObject) -> None:
    gate = data.draw(st.sampled_from(GATES))
    case = data.draw(cases(gate, max_places=3))
    assume(int(case.num_drafts.min()) == case.drafts.shape[1] > 0)
    places = case.drafts.shape[1]
    t, a, b = (log_probs(x, case.vocab_size)[:, :places] for x in (case.t, case.a, case.b))
    s = score(case.rules[0], case.parameters, t, a, b)
    stands, jsd = accept(case.rules[0], case.parameters, case.drafts, t, a, b)
    assert not s.isnan().any()
    assert jsd.tolist() == divergence(a, b).tolist() == divergence(b, a).tolist()
    for row, rule in enumerate(case.rules):
        for place in range(places):
            lt, la, lb = _position(case, row, place)
            expected_jsd = oracle.jsd(la, lb)
            assert float(jsd[row, place]) == pytest.approx(expected_jsd, abs=3e-6)
            assert t[row, place].tolist() == pytest.approx(lt.tolist(), abs=3e-5)
            verdict = oracle.judge(rule, lt, la, lb, int(case.drafts[row, place]), place + 1)
            if bool(stands[row, place]) != verdict.accepted:
                assert verdict.margin < TOLERANCE
            if verdict.margin < TOLERANCE or verdict.token_margin < TOLERANCE:
                continue
            kept = oracle.plausible(rule, lt)
            expected = np.where(kept, oracle.scores(rule, lt, la, lb, expected_jsd), -math.inf)
            if max(expected) == -math.inf:
                expected = np.where(kept, lt, -math.inf)
            limit = oracle.log(rule.plausibility) + max(lt)
            clear = np.array([oracle.distance(x, limit) > TOLERANCE for x in lt])  # of the plausibility limit
            got = s[row, place].double().numpy()
            for token in np.flatnonzero(clear):
                assert got[token] == pytest.approx(expected[token], abs=2e-4)
