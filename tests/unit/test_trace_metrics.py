"""Metrics of a trace: ALGORITHM-level counts, exact additivity, and the cost model."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.trace import (
    Event,
    Metrics,
    RoleTokens,
    SummaryEvent,
    break_even,
    cost,
    measure,
    measure_requests,
    parse_event,
)


def event(kind: str, **fields: Any) -> Event:
    parsed = parse_event({"event": kind, "timestamp_s": 0.0, **fields})
    assert type(parsed).__name__ != "OtherEvent"
    return parsed


def block(drafted: int, accepted: int, fused: int, bonus: int = 0, **fields: Any) -> Event:
    return event(
        "block",
        index=0,
        num_drafted=drafted,
        num_accepted=accepted,
        num_fused=fused,
        num_bonus=bonus,
        **fields,
    )


RUN = [
    event("view", full_tokens=1000, compressed_tokens=300),
    event("compress", compressor="bm25", reason="timeout"),
    event(
        "request",
        request_id="a",
        arm="asymspec",
        mode="asymspec",
        prompt_tokens={"verifier": 300, "base": 300, "drafter": 1000},
        cached_tokens={"verifier": 100, "base": 100, "drafter": 400},
    ),
    block(3, 3, 0, request_id="a", divergence=[0.1, 0.2, 0.3]),
    block(3, 0, 1, request_id="a", divergence=[0.6]),
    block(2, 2, 0, 1, request_id="a"),
    event(
        "response",
        request_id="a",
        finish_reason="stop",
        num_tokens=6,
        elapsed_s=2.0,
        time_to_first_token_s=0.5,
        forwarded_tokens={"verifier": 210, "base": 209, "drafter": 608},
    ),
    event("request", request_id="b", arm="asymspec", mode="strict", fallback="identical_views"),
    event("error", request_id="b", error_type="BackendError"),
    event("request", request_id="c"),
]


def test_counts_and_ratios() -> None:
    total = measure(RUN)
    assert total.num_emitted == 7
    assert total.num_response_tokens == 6
    assert total.acceptance_rate == 5 / 8
    assert total.drafted_per_position == (3, 3, 2)
    assert total.accepted_per_position == (2, 2, 1)
    assert total.acceptance_per_position == (2 / 3, 2 / 3, 1 / 2)
    assert total.mean_accepted_length == 7 / 3
    assert total.mean_divergence == pytest.approx(0.3)
    assert total.computed_tokens == RoleTokens(verifier=200, base=200, drafter=600)
    assert total.tokens_per_s == 3.0
    assert total.mean_time_to_first_token_s == 0.5
    assert (total.num_requests, total.num_responses, total.num_errors, total.num_fallbacks) == (3, 1, 1, 1)
    assert (total.num_views, total.full_tokens, total.compressed_tokens, total.num_degraded) == (
        1,
        1000,
        300,
        1,
    )


def test_each_request_apart() -> None:
    first, second, third = measure_requests(RUN)
    assert (first.request_id, first.arm, first.ending) == ("a", "asymspec", "stop")
    assert first.metrics.num_blocks == 3
    assert (second.mode, second.fallback, second.ending) == ("strict", "identical_views", "BackendError")
    assert third.ending is None
    assert sum((r.metrics for r in (first, second, third)), measure(RUN[:2])) == measure(RUN)


def test_unknown_events_count_nothing() -> None:
    assert measure([parse_event({"event": "of my own", "timestamp_s": 0, "num_blocks": 5})]) == Metrics()


def test_nothing_gives_no_ratio() -> None:
    empty = measure([])
    assert empty == Metrics()
    assert empty.acceptance_rate is None
    assert empty.mean_accepted_length is None
    assert empty.mean_divergence is None
    assert empty.tokens_per_s is None
    assert empty.mean_time_to_first_token_s is None
    assert empty.acceptance_per_position == ()


def test_numbers_that_are_none_are_left_out_of_means() -> None:
    total = measure([block(2, 0, 1, divergence=["NaN", 0.25]), event("response", elapsed_s="Infinity")])
    assert (total.num_judged, total.mean_divergence, total.elapsed_s) == (1, 0.25, Fraction(0))


counts = st.integers(0, 5)
some_events = st.lists(
    st.one_of(
        st.builds(block, counts, counts, counts, divergence=st.lists(st.floats(0, 0.7), max_size=5)),
        st.builds(
            lambda a, b: event("request", prompt_tokens={"base": a}, cached_tokens={"drafter": b}),
            counts,
            counts,
        ),
        st.builds(
            lambda n, s: event("response", num_tokens=n, elapsed_s=s, time_to_first_token_s=s),
            counts,
            st.floats(0, 1e3),
        ),
    )
)


@given(some_events, some_events)
def test_metrics_are_additive(left: list[Event], right: list[Event]) -> None:
    assert measure(left) + measure(right) == measure(left + right) == measure(right + left)


def test_summary_is_plain_json_with_every_count() -> None:
    data = measure(RUN).summary()
    assert data["computed_tokens"] == {"verifier": 200, "base": 200, "drafter": 600}
    assert data["elapsed_s"] == 2.0
    assert type(data["elapsed_s"]) is float
    assert data["accepted_per_position"] == [2, 2, 1]
    assert data["acceptance_rate"] == 5 / 8


def test_cost_counts_what_was_computed() -> None:
    flops = cost(measure(RUN), verifier_params=100, drafter_params=10)
    assert flops.prefill_flops == 2 * (100 * 200 + 10 * (200 + 600))
    assert flops.decode_flops == 2 * (100 * 10 + 10 * (9 + 8))
    assert flops.ceiling_prefill_flops == 2 * 100 * 600
    assert flops.ceiling_decode_flops == 2 * 100 * 6
    assert flops.prefill_ratio == 56_000 / 120_000
    assert flops.total_ratio == (56_000 + 2_340) / (120_000 + 1_200)


def test_cost_without_a_drafter_has_no_ceiling() -> None:
    floor = measure(
        [
            event("request", prompt_tokens={"verifier": 50}),
            event("response", num_tokens=3, forwarded_tokens={"verifier": 52}),
        ]
    )
    flops = cost(floor, verifier_params=7, drafter_params=1)
    assert (flops.prefill_flops, flops.decode_flops) == (700, 28)
    assert flops.prefill_ratio is None
    assert flops.total_ratio is None
    with pytest.raises(ConfigurationError, match="drafter_params=0"):
        cost(floor, verifier_params=7, drafter_params=0)


@given(st.integers(1, 100), st.integers(1, 100), st.integers(1, 1000), st.integers(1, 1000))
def test_break_even_is_where_prefill_costs_what_ceiling_costs(
    verifier: int, drafter: int, full: int, compressed: int
) -> None:
    run = measure(
        [event("request", prompt_tokens={"verifier": compressed, "base": compressed, "drafter": full})]
    )
    flops = cost(run, verifier_params=verifier, drafter_params=drafter)
    limit = break_even(verifier_params=verifier, drafter_params=drafter)
    gap = compressed / full - limit
    if abs(gap) > 1e-9:
        assert (flops.prefill_flops < flops.ceiling_prefill_flops) == (gap < 0)


def test_what_summaries_cost_is_summed() -> None:
    event = SummaryEvent(timestamp_s=0, num_calls=3, prompt_tokens=700, completion_tokens=40)
    total = measure([event, event])
    assert (total.num_summaries, total.summary_prompt_tokens, total.summary_completion_tokens) == (
        2,
        1400,
        80,
    )
    assert total.summary()["num_summaries"] == 2
