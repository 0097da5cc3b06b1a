"""Costs: hand-computed calls, and sums."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.trace import RoleTokens
from evals.cells import Cell
from evals.costs import ModelSizes, RecordCosts, Work, record_costs, work_of
from evals.records import Call, Failure, Output, Record

SIZES = ModelSizes(verifier=100, drafter=10)
ASYMSPEC = "asymspec on extract@0.3"
CEILING_CALL = Call(
    prompt_tokens=RoleTokens(verifier=1_000),
    computed_tokens=RoleTokens(verifier=1_019),
    full_tokens=1_000,
    completion_tokens=20,
    elapsed_s=4.0,
    time_to_first_token_s=2.0,
)
# 300 of the verifier's, 1,000 and 300 of the drafter's, whose base pass shares 50 with its full view.
ASYMSPEC_CALL = Call(
    prompt_tokens=RoleTokens(verifier=300, base=300, drafter=1_000),
    computed_tokens=RoleTokens(verifier=330, base=280, drafter=1_030),
    num_blocks=10,
    num_drafted=30,
    num_accepted=20,
    num_fused=10,
    completion_tokens=20,
    elapsed_s=3.0,
    time_to_first_token_s=1.0,
    compress_s=0.5,
    extra_flops=700.0,
)


def record(cell: str, *calls: Call) -> Record:
    elapsed_s = sum(call.elapsed_s for call in calls)
    output = Output(answer="x", calls=calls, elapsed_s=elapsed_s)
    return Record(suite="s", sample="1", cell=cell, output=output)


def cost_of(cell: str, *calls: Call, sizes: ModelSizes = SIZES) -> RecordCosts:
    cost = record_costs(record(cell, *calls), Cell.parse(cell), sizes)
    assert cost is not None
    return cost


def test_a_failed_record_has_no_cost() -> None:
    failure = Failure(stage="answer", error_type="ValueError", message="no")
    failed = Record(suite="s", sample="1", cell="ceiling", failure=failure)
    assert record_costs(failed, Cell.parse("ceiling"), SIZES) is None


def test_a_plain_call_by_hand() -> None:
    cost = cost_of("ceiling", CEILING_CALL)
    assert cost.prefill_flops == 2 * 100 * 1_000
    assert cost.total_flops == 2 * 100 * 1_019
    assert not cost.is_modelled


def test_an_asymspec_call_by_hand() -> None:
    cost = cost_of(ASYMSPEC, ASYMSPEC_CALL)
    assert cost.prefill_flops == 2 * 100 * 300 + 2 * 10 * (1_000 + 250)
    assert cost.total_flops == cost.prefill_flops + 2 * 100 * 30 + 2 * 10 * (30 + 30) + 700
    assert (cost.elapsed_s, cost.compress_s, cost.time_to_first_token_s) == (3.0, 0.5, 1.0)


def test_what_was_cached_costs_nothing() -> None:
    call = CEILING_CALL.model_copy(
        update={
            "cached_tokens": RoleTokens(verifier=900),
            "computed_tokens": RoleTokens(verifier=119),
        }
    )
    assert work_of(call, Cell.parse("ceiling")) == Work(RoleTokens(verifier=100), RoleTokens(verifier=19))


def test_a_servers_call_is_modelled_and_says_so() -> None:
    call = ASYMSPEC_CALL.model_copy(
        update={"computed_tokens": None, "cached_tokens": RoleTokens(verifier=100, base=100, drafter=400)}
    )
    work = work_of(call, Cell.parse("asymspec:num_draft_tokens=3 on extract@0.3"))
    assert work.prefill == RoleTokens(verifier=200, base=200, drafter=600)
    assert work.decode == RoleTokens(verifier=40, base=40, drafter=40)  # ten blocks of K+1
    assert work.is_modelled
    plain = CEILING_CALL.model_copy(update={"computed_tokens": None})
    assert work_of(plain, Cell.parse("ceiling")).decode == RoleTokens(verifier=20)


def test_a_server_without_usage_costs_an_unknown_amount_not_nothing() -> None:
    untold = CEILING_CALL.model_copy(
        update={
            "computed_tokens": None,
            "prompt_tokens": RoleTokens(),
            "completion_tokens": 0,
            "text": "Bonn",
        }
    )
    assert work_of(untold, Cell.parse("ceiling")).is_untold
    cost = cost_of("ceiling", CEILING_CALL, untold)
    assert cost.is_untold
    assert (cost.prefill_flops, cost.total_flops) == (None, None)
    lost = untold.model_copy(update={"text": ""})  # a call that failed computed nothing that is known of
    assert not work_of(lost, Cell.parse("ceiling")).is_untold


def test_a_drafter_alone_costs_the_drafters_size() -> None:
    call = Call(prompt_tokens=RoleTokens(drafter=50), completion_tokens=5)
    assert cost_of("drafter", call).total_flops == 2 * 10 * 55


def test_an_unknown_size_gives_no_figure_rather_than_a_small_one() -> None:
    sizes = ModelSizes(verifier=100)
    assert cost_of(ASYMSPEC, ASYMSPEC_CALL, sizes=sizes).total_flops is None
    assert cost_of("ceiling", CEILING_CALL, sizes=sizes).total_flops == 2 * 100 * 1_019


def test_sizes_come_from_the_systems_identity() -> None:
    assert ModelSizes.of({"verifier_params": 5, "drafter_params": None}) == ModelSizes(5, None)
    assert ModelSizes.of({}) == ModelSizes()
    with pytest.raises(ConfigurationError, match="drafter_params=0"):
        ModelSizes(drafter=0)


counts = st.integers(0, 5_000)
roles = st.builds(RoleTokens, verifier=counts, base=counts, drafter=counts)
calls = st.builds(
    Call,
    prompt_tokens=roles,
    cached_tokens=roles,
    computed_tokens=st.none() | roles,
    num_drafted=counts,
    num_blocks=counts,
    completion_tokens=counts,
    elapsed_s=st.floats(0.25, 100),
    extra_flops=st.integers(0, 10**6).map(float),
)


@given(st.lists(calls, max_size=4))
def test_a_record_costs_the_sum_of_its_calls(own: list[Call]) -> None:
    cost = cost_of(ASYMSPEC, *own)
    each = [cost_of(ASYMSPEC, call).total_flops for call in own]
    assert cost.total_flops == sum(total for total in each if total is not None)
    assert cost.elapsed_s == sum(call.elapsed_s for call in own)
    for call in own:
        work = work_of(call, Cell.parse(ASYMSPEC))
        if call.computed_tokens is not None:  # split, not changed
            assert work.prefill + work.decode == call.computed_tokens
