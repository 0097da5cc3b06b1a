"""Whatever is recorded, the metrics and the sums over the trace are the same numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.trace import MemoryRecorder, MetricsRecorder, TeeRecorder, measure
from asymspec_agents.trace.metrics import ROLES

from .scraping import samples

counts = st.integers(0, 1000)
roles = st.fixed_dictionaries(dict.fromkeys(ROLES, counts))
seconds = st.none() | st.floats(0, 1e4)
ids = st.sampled_from(["a", "b", "<script>"])
events = st.one_of(
    st.tuples(
        st.just("request"),
        st.fixed_dictionaries(
            {
                "request_id": ids,
                "arm": st.sampled_from(["asymspec", "floor"]),
                "mode": st.none() | st.just("strict"),
                "fallback": st.none() | st.text(max_size=5),
                "prompt_tokens": roles,
                "cached_tokens": roles,
                "queue_s": seconds,
            }
        ),
    ),
    st.tuples(
        st.just("block"),
        st.fixed_dictionaries(
            {
                "request_id": ids,
                "index": counts,
                "num_drafted": st.integers(0, 8),
                "num_accepted": st.integers(0, 8),
                "num_fused": st.integers(0, 2),
                "num_bonus": st.integers(0, 1),
                "divergence": st.lists(st.floats(0, math.log(2)) | st.just(math.nan), max_size=8),
            }
        ),
    ),
    st.tuples(
        st.just("response"),
        st.fixed_dictionaries(
            {
                "request_id": ids,
                "num_tokens": counts,
                "elapsed_s": st.floats(0, 1e4),
                "prefill_s": seconds,
                "time_to_first_token_s": seconds,
                "forwarded_tokens": roles,
            }
        ),
    ),
    st.tuples(
        st.just("error"),
        st.fixed_dictionaries(
            {
                "request_id": ids,
                "error_type": st.sampled_from(["RequestAbortedError", "BackendError"]),
                "forwarded_tokens": roles,
            }
        ),
    ),
    st.tuples(
        st.just("view"),
        st.fixed_dictionaries(
            {"full_tokens": counts, "compressed_tokens": counts, "num_degraded": counts, "elapsed_s": seconds}
        ),
    ),
    st.tuples(st.just("compress"), st.fixed_dictionaries({"reason": st.none() | st.just("timeout")})),
    st.tuples(
        st.just("summary"), st.fixed_dictionaries({"prompt_tokens": counts, "completion_tokens": counts})
    ),
    st.tuples(st.just("block"), st.fixed_dictionaries({"num_drafted": st.text(max_size=3)})),  # no block
)


@given(st.lists(events, max_size=30))
def test_metrics_and_trace_are_one_sum(recorded: list[tuple[str, dict[str, Any]]]) -> None:
    memory, metrics = MemoryRecorder(), MetricsRecorder()
    tee = TeeRecorder(memory, metrics)
    for event, fields in recorded:
        tee.record(event, **fields)
    total, value = measure(memory.events), samples(metrics.text().decode())
    assert metrics.num_dropped == 0
    assert value("asymspec_requests_total") == total.num_responses + total.num_errors
    assert value("asymspec_requests_total", outcome="finished") == total.num_responses
    assert value("asymspec_errors_total") == total.num_errors
    assert value("asymspec_mode_fallbacks_total") == total.num_fallbacks
    assert value("asymspec_blocks_total") == total.num_blocks
    for kind in ("drafted", "accepted", "fused", "bonus"):
        assert value("asymspec_tokens_total", kind=kind) == getattr(total, f"num_{kind}")
    for which in ("drafted", "accepted"):
        for at, count in enumerate(getattr(total, f"{which}_per_position")):
            assert value(f"asymspec_{which}_per_position_total", position=str(at + 1)) == count
    for role in ROLES:
        for name in ("prompt", "cached", "forwarded"):
            metric = "cached_prompt" if name == "cached" else name
            expected = getattr(getattr(total, f"{name}_tokens"), role)
            assert value(f"asymspec_{metric}_tokens_total", view=role) == expected
    assert value("asymspec_answer_tokens_total") == total.num_response_tokens
    assert value("asymspec_position_divergence_nats_count") == total.num_judged
    assert value("asymspec_position_divergence_nats_sum") == pytest.approx(float(total.divergence_sum))
    assert value("asymspec_request_duration_seconds_sum") == pytest.approx(float(total.elapsed_s))
    assert value("asymspec_time_to_first_token_seconds_count") == total.num_first_tokens
    assert value("asymspec_compression_requests_total") == total.num_views
    assert value("asymspec_compression_input_tokens_total") == total.full_tokens
    assert value("asymspec_compression_output_tokens_total") == total.compressed_tokens
    assert value("asymspec_compression_fallbacks_total") == total.num_degraded
    assert value("asymspec_summaries_total") == total.num_summaries
    assert value("asymspec_summary_tokens_total", kind="prompt") == total.summary_prompt_tokens


def test_labels_stay_few_whatever_is_recorded() -> None:
    metrics = MetricsRecorder()
    for number in range(1_000):
        metrics.record("error", error_type=f"Error{number}" + "x" * 1_000)
    text = metrics.text().decode()
    assert samples(text)("asymspec_errors_total") == 1_000
    assert samples(text)("asymspec_errors_total", type="other") == 900
    assert text.count("asymspec_errors_total{") <= 101
    assert max(map(len, text.splitlines())) < 300


def test_a_recorder_counts_its_parts_only() -> None:
    metrics = MetricsRecorder(("compression",))
    metrics.record("view", full_tokens=5)
    metrics.record("response", num_tokens=5)
    assert b"asymspec_compression_input_tokens_total 5.0" in metrics.text()
    assert b"asymspec_requests_total" not in metrics.text()
    with pytest.raises(ConfigurationError, match="'engin'"):
        MetricsRecorder(("engin",))  # type: ignore[arg-type]


def test_metrics_leave_the_contents_of_a_trace_as_they_are() -> None:
    tee = TeeRecorder(MemoryRecorder(captures_content=True), MetricsRecorder())
    assert tee.captures_content
    assert not TeeRecorder(MemoryRecorder(), MetricsRecorder()).captures_content
    assert not TeeRecorder(MetricsRecorder()).captures_content


def test_requests_that_never_end_are_forgotten() -> None:
    metrics = MetricsRecorder()
    for number in range(10_010):
        metrics.record("request", request_id=str(number), arm="asymspec", mode="strict")
    metrics.record("response", request_id="10009")
    metrics.record("response", request_id="0")
    value = samples(metrics.text().decode())
    assert value("asymspec_requests_total", arm="asymspec") == 1
    assert value("asymspec_requests_total", arm="unknown") == 1
