"""The trace of a run, its metrics, and the reports of its answers are the same numbers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("prometheus_client", reason="prometheus_client is not installed")

import uvicorn

from asymspec_agents import HTTPBackend
from asymspec_agents.backends import Backend, ChatRequest
from asymspec_agents.errors import AsymSpecError, ConfigurationError
from asymspec_agents.recording import Recorder
from asymspec_agents.router import ContextRouter
from asymspec_agents.server.app import create_app
from asymspec_agents.server.options import ServerOptions
from asymspec_agents.trace import MemoryRecorder, MetricsRecorder, TeeRecorder, measure
from asymspec_agents.views import ViewPolicy
from tests.engine.tiny_folder import random_backend
from tests.gateway.serving import running
from tests.server.serving import HeldBackend

from .scraping import samples

LOG = "\n".join(f"12:{n:02}:00 request {n} served" for n in range(20))
assert uvicorn


@contextlib.contextmanager
def served(backend: Backend, recorder: Recorder, metrics: MetricsRecorder, **options: Any) -> Iterator[str]:
    name = backend.capabilities.verifier
    with running(
        create_app({name: backend}, ServerOptions(**options), recorder=recorder, metrics=metrics)
    ) as url:
        yield url


def scraped(url: str, **headers: str) -> Any:
    return samples(httpx.get(url + "/metrics", headers=headers).text)


def test_trace_metrics_and_reports_agree() -> None:
    memory, metrics = MemoryRecorder(), MetricsRecorder(("engine",))
    seen, client = MemoryRecorder(), MetricsRecorder(("client", "compression"))
    tee, ours = TeeRecorder(memory, metrics), TeeRecorder(seen, client)
    router, reports, num_tokens = ContextRouter(ViewPolicy(keep_last=0), recorder=ours), [], 0
    messages: list[dict[str, Any]] = [{"role": "user", "content": "What does the log say?"}]
    with served(random_backend(recorder=tee), tee, metrics) as url:
        with contextlib.closing(HTTPBackend(url, recorder=ours)) as backend:
            for turn in range(3):
                routed = router.route(messages)
                request = ChatRequest(messages=routed.full, asymspec=routed.request(), max_tokens=9)
                if turn == 1:
                    *_, last = backend.stream(request)
                    answer: Any = last
                else:
                    answer = backend.generate(request)
                reports.append(answer.report)
                num_tokens += answer.usage.completion_tokens
                call = {"id": f"c{turn}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
                messages += [
                    {"role": "assistant", "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": f"c{turn}", "content": LOG},
                ]
            with pytest.raises(AsymSpecError):
                backend.with_model("nobody").generate(request)
        value, total = scraped(url), measure(memory.events)
    told = samples(client.text().decode())
    for kind in ("drafted", "accepted", "fused", "bonus"):
        expected = sum(getattr(report, kind) for report in reports)
        assert expected == getattr(total, f"num_{kind}") == value("asymspec_tokens_total", kind=kind)
        assert expected == told("asymspec_client_tokens_total", kind=kind)
    assert sum(report.blocks for report in reports) == value("asymspec_blocks_total") == total.num_blocks
    for at in range(len(total.accepted_per_position)):
        expected = sum((*report.accepted_per_position, *[0] * 9)[at] for report in reports)
        assert expected == value("asymspec_accepted_per_position_total", position=str(at + 1))
    for view in ("verifier", "drafter"):
        expected = sum(getattr(report, f"{view}_prompt_tokens") for report in reports)
        assert expected == value("asymspec_prompt_tokens_total", view=view) > 0
        assert expected == told("asymspec_client_prompt_tokens_total", view=view)
    for view in ("verifier", "base", "drafter"):
        expected = sum(getattr(report.cached_tokens, view) for report in reports)
        assert expected == value("asymspec_cached_prompt_tokens_total", view=view)
        assert expected == told("asymspec_client_cached_prompt_tokens_total", view=view)
        assert getattr(total.forwarded_tokens, view) == value("asymspec_forwarded_tokens_total", view=view)
    assert num_tokens == total.num_response_tokens == value("asymspec_answer_tokens_total")
    assert num_tokens == told("asymspec_client_answer_tokens_total")
    assert value("asymspec_requests_total", arm="asymspec", outcome="finished") == 3
    assert value("asymspec_refusals_total", code="model_not_found") == 1
    assert value("asymspec_server_open_requests") == 0
    assert told("asymspec_client_requests_total", arm="asymspec", outcome="finished") == 3
    assert told("asymspec_client_requests_total", outcome="failed") == 1
    assert told("asymspec_client_time_to_first_token_seconds_count") == 1
    seen_views = measure(seen.events)
    assert told("asymspec_compression_input_tokens_total") == seen_views.full_tokens > 0
    mean = [report.mean_divergence for report in reports if report.drafted]
    assert value("asymspec_divergence_nats_sum") == pytest.approx(sum(mean))
    for stage in ("queue", "prefill", "decode", "request_duration", "time_to_first_token"):
        assert value(f"asymspec_{stage}_seconds_count") == 3


def test_metrics_ask_for_the_key_as_everything_does() -> None:
    metrics = MetricsRecorder()
    with served(HeldBackend(is_held=False), metrics, metrics, api_keys=("key",)) as url:
        assert httpx.get(url + "/metrics").status_code == 401
        answer = httpx.get(url + "/metrics", headers={"authorization": "Bearer key"})
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")


def test_a_server_without_metrics_has_none() -> None:
    with running(create_app({"held": HeldBackend(is_held=False)})) as url:
        assert httpx.get(url + "/metrics").status_code == 404


def test_a_client_that_leaves_is_told_from_one_that_fails() -> None:
    memory, metrics = MemoryRecorder(captures_content=True), MetricsRecorder(("client",))
    held = HeldBackend()  # a stream that is left must not have come whole before
    with running(create_app({"held": held})) as url:
        recorder = TeeRecorder(memory, metrics)
        with contextlib.closing(HTTPBackend(url, recorder=recorder)) as backend:
            request = ChatRequest(messages=[{"role": "user", "content": "secret-word"}])
            held.let_go(3)
            backend.generate(request)
            stream = backend.stream(request)
            held.let_go(1)
            next(stream)
            stream.close()
            with pytest.raises(ConfigurationError):
                backend.generate(ChatRequest(messages=request.messages, extra={"n": object()}))
    value = samples(metrics.text().decode())
    assert value("asymspec_client_requests_total", outcome="finished") == 1
    assert value("asymspec_client_errors_total", type="ConfigurationError") == 1
    first = memory.events[0]
    assert getattr(first, "text", None) == "one two three "
    assert "secret-word" not in metrics.text().decode()
