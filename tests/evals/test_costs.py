"""Costs: hand-computed calls, sums, and what is relative to Ceiling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.trace import RoleTokens
from evals.cells import Cell
from evals.costs import ModelSizes, Work, cell_costs, relative_costs, work_of
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


def record(cell: str, *calls: Call, sample: str = "1", peak: int | None = None) -> Record:
    elapsed_s = sum(call.elapsed_s for call in calls)
    output = Output(answer="x", calls=calls, elapsed_s=elapsed_s, peak_memory_bytes=peak)
    return Record(suite="s", sample=sample, cell=cell, output=output)


def failed(cell: str, sample: str) -> Record:
    failure = Failure(stage="answer", error_type="ValueError", message="no")
    return Record(suite="s", sample=sample, cell=cell, failure=failure)


def test_a_plain_call_by_hand() -> None:
    cost = cell_costs([record("ceiling", CEILING_CALL)], SIZES)["ceiling"]
    assert cost.prefill_flops == 2 * 100 * 1_000
    assert cost.decode_flops == 2 * 100 * 19
    assert cost.total_flops == 2 * 100 * 1_019
    assert not cost.work.is_modelled


def test_an_asymspec_call_by_hand() -> None:
    cost = cell_costs([record(ASYMSPEC, ASYMSPEC_CALL)], SIZES)[ASYMSPEC]
    assert cost.prefill_flops == 2 * 100 * 300 + 2 * 10 * (1_000 + 250)
    assert cost.decode_flops == 2 * 100 * 30 + 2 * 10 * (30 + 30)
    assert cost.total_flops == cost.prefill_flops + cost.decode_flops + 700
    assert (cost.elapsed_s, cost.compress_s, cost.completion_tokens) == (3.0, 0.5, 20)


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


def test_a_drafter_alone_costs_the_drafters_size() -> None:
    call = Call(prompt_tokens=RoleTokens(drafter=50), completion_tokens=5)
    cost = cell_costs([record("drafter", call)], SIZES)["drafter"]
    assert cost.total_flops == 2 * 10 * 55


def test_an_unknown_size_gives_no_figure_rather_than_a_small_one() -> None:
    records = [record("ceiling", CEILING_CALL), record(ASYMSPEC, ASYMSPEC_CALL)]
    costs = cell_costs(records, ModelSizes(verifier=100))
    assert costs[ASYMSPEC].total_flops is None
    assert costs["ceiling"].total_flops == 2 * 100 * 1_019
    relative = relative_costs(records, ModelSizes(verifier=100))
    assert relative[ASYMSPEC].total is None
    assert relative[ASYMSPEC].elapsed == 3 / 4


def test_relative_to_ceiling_by_hand() -> None:
    records = [record("ceiling", CEILING_CALL, peak=200), record(ASYMSPEC, ASYMSPEC_CALL, peak=100)]
    relative = relative_costs(records, SIZES)[ASYMSPEC]
    assert relative.prefill == (2 * 100 * 300 + 2 * 10 * 1_250) / (2 * 100 * 1_000)
    assert relative.elapsed == 0.75
    assert relative.time_to_first_token == 0.5
    assert relative.peak_memory == 0.5
    assert relative.num_samples == 1


def test_only_samples_that_both_answered_are_compared() -> None:
    dear = CEILING_CALL.model_copy(update={"elapsed_s": 100.0})
    records = [
        record("ceiling", CEILING_CALL, sample="1"),
        record("ceiling", dear, sample="2"),
        record(ASYMSPEC, ASYMSPEC_CALL, sample="1"),
        failed(ASYMSPEC, "2"),
    ]
    assert relative_costs(records, SIZES)[ASYMSPEC].elapsed == 0.75
    cost = cell_costs(records, SIZES)[ASYMSPEC]
    assert (cost.num_records, cost.num_failed, cost.num_calls) == (2, 1, 1)


def test_without_ceiling_there_is_no_figure() -> None:
    relative = relative_costs([record(ASYMSPEC, ASYMSPEC_CALL)], SIZES)[ASYMSPEC]
    assert (relative.num_samples, relative.total, relative.elapsed) == (0, None, None)


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
groups = st.lists(st.lists(calls, max_size=4), min_size=1, max_size=5)


@given(groups)
def test_totals_are_the_sums_of_their_calls(samples: list[list[Call]]) -> None:
    cell = Cell.parse(ASYMSPEC)
    records = [record(ASYMSPEC, *own, sample=str(i)) for i, own in enumerate(samples)]
    cost = cell_costs(records, SIZES)[ASYMSPEC]
    each = [cell_costs([one], SIZES)[ASYMSPEC].total_flops for one in records]
    assert cost.total_flops == sum(total for total in each if total is not None)
    assert cost.num_calls == sum(map(len, samples))
    for call in (call for own in samples for call in own):
        work = work_of(call, cell)
        if call.computed_tokens is not None:  # split, not changed
            assert work.prefill + work.decode == call.computed_tokens


@given(groups)
def test_ceiling_relative_to_itself_is_one(samples: list[list[Call]]) -> None:
    records = [record("ceiling", *own, sample=str(i)) for i, own in enumerate(samples)]
    relative = relative_costs(records, SIZES)["ceiling"]
    figures = (relative.prefill, relative.total, relative.elapsed, relative.time_to_first_token)
    assert {figure for figure in figures if figure is not None} <= {1.0}
    assert relative.num_samples == len(samples)
