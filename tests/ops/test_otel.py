"""Spans as a collector of this machine receives them: attributes, stages, one trace across processes."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="opentelemetry-sdk is not installed")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="the OTLP exporter is not installed")
pytest.importorskip("torch", reason="torch is not installed")

from asymspec_agents import HTTPBackend
from asymspec_agents.backends import ChatRequest
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.server.app import create_app
from asymspec_agents.trace import MemoryRecorder, TeeRecorder
from asymspec_agents.trace.otel import OTelRecorder
from tests.engine.tiny_folder import random_backend
from tests.gateway.serving import gateway, running
from tests.server.serving import HeldBackend

QUESTION = [{"role": "user", "content": "secret-word?"}]


@contextlib.contextmanager
def collector() -> Iterator[tuple[str, list[Any]]]:
    """The address of an OTLP receiver, and the bodies that it got."""
    bodies: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                import gzip

                data = gzip.decompress(data)
            bodies.append((self.path, data))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def spans(bodies: list[Any]) -> list[dict[str, Any]]:
    """Every span that was received, with its service's name."""
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

    def value(given: Any) -> Any:
        kind = given.WhichOneof("value")
        found = getattr(given, kind)
        return [value(item) for item in found.values] if kind == "array_value" else found

    found = []
    for path, data in bodies:
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(data).resource_spans:
            about = {item.key: value(item.value) for item in resource.resource.attributes}
            for scope in resource.scope_spans:
                for span in scope.spans:
                    attributes = {item.key: value(item.value) for item in span.attributes}
                    found.append({"span": span, "service": about["service.name"], **attributes})
    return found


def named(found: list[dict[str, Any]], name: str, service: str) -> dict[str, Any]:
    [one] = [item for item in found if item["span"].name == name and item["service"] == service]
    return one


def test_client_gateway_and_server_make_one_trace() -> None:
    with collector() as (url, bodies):
        client, middle, server = (
            OTelRecorder.over_http(url, service=name) for name in ("client", "gateway", "serve")
        )
        backend = random_backend(recorder=server)
        model = backend.capabilities.verifier
        with (
            running(create_app({model: backend}, recorder=server)) as served,
            gateway(served, recorder=middle) as between,
            contextlib.closing(HTTPBackend(between, recorder=client)) as asked,
        ):
            request = ChatRequest(messages=QUESTION, asymspec={"edits": []}, max_tokens=5)
            answer = asked.generate(request)
        for recorder in (client, middle, server):
            recorder.close()
            assert recorder.num_dropped == 0
        found = spans(bodies)
    ours, theirs = named(found, f"chat {model}", "client"), named(found, f"chat {model}", "serve")
    passed = named(found, f"chat {model}", "gateway")
    assert len({item["span"].trace_id for item in found}) == 1
    assert not ours["span"].parent_span_id
    assert passed["span"].parent_span_id == ours["span"].span_id
    assert theirs["span"].parent_span_id == passed["span"].span_id
    assert (ours["span"].kind, passed["span"].kind, theirs["span"].kind) == (3, 2, 2)  # client, servers
    assert answer.report is not None
    for item in (ours, theirs):
        assert item["gen_ai.operation.name"] == "chat"
        assert item["gen_ai.request.model"] == model
        assert item["gen_ai.usage.input_tokens"] == answer.usage.prompt_tokens
        assert item["gen_ai.usage.output_tokens"] == answer.usage.completion_tokens
        assert item["gen_ai.response.finish_reasons"] == [answer.finish_reason]
        assert item["asymspec.mode"] == answer.report.mode
        assert item["asymspec.accepted.tokens"] == answer.report.accepted
        assert item["asymspec.drafted.tokens"] == answer.report.drafted
    assert ours["server.address"] == "127.0.0.1"
    assert str(ours["server.port"]) in between
    for stage in ("queue", "prefill", "decode"):
        span = named(found, f"asymspec.{stage}", "serve")["span"]
        assert span.parent_span_id == theirs["span"].span_id
        assert span.start_time_unix_nano <= span.end_time_unix_nano
    assert not any(b"secret-word" in data for _, data in bodies)


def test_a_span_belongs_to_the_applications_own_and_errors_show_no_text() -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    recorder = OTelRecorder(provider)
    with (
        running(create_app({"held": HeldBackend(is_held=False)})) as url,
        contextlib.closing(HTTPBackend(url, recorder=recorder)) as backend,
        provider.get_tracer("agent").start_as_current_span("agent") as agent,
    ):
        backend.generate(ChatRequest(messages=QUESTION))
        with pytest.raises(ConfigurationError):
            backend.generate(ChatRequest(messages=QUESTION, extra={"n": object()}))
    provider.shutdown()
    made = [span for span in exporter.get_finished_spans() if span.name.startswith("chat")]
    assert len(made) == 2
    assert all(
        span.parent is not None and span.parent.span_id == agent.get_span_context().span_id for span in made
    )
    assert made[1].attributes is not None
    assert made[1].attributes["error.type"] == "ConfigurationError"
    assert not made[1].status.is_ok
    assert made[1].status.description is None


@pytest.mark.parametrize("captures", [True, False])
def test_contents_leave_only_when_asked_for(captures: bool) -> None:
    with collector() as (url, bodies):
        recorder = OTelRecorder.over_http(url + "/v1/traces", captures_content=captures)
        tee = TeeRecorder(MemoryRecorder(captures_content=True), recorder)
        assert tee.captures_content
        tee.record("response", request_id="a", text="the answer", finish_reason="stop")
        recorder.close()
        [span] = spans(bodies)
    told = json.loads(span.get("gen_ai.output.messages", "null"))
    assert (told is not None) is captures
    if captures:
        assert told[0]["parts"] == [{"type": "text", "content": "the answer"}]


def test_hostile_headers_are_no_parents() -> None:
    with collector() as (url, bodies):
        recorder = OTelRecorder.over_http(url)
        for number, header in enumerate(("", "00-0-0-0", "00-" + "z" * 32, "\x00" * 99, "é" * 10_000)):
            recorder.received(str(number), {"traceparent": header})
            recorder.record("response", request_id=str(number))
        recorder.close()
        found = spans(bodies)
    assert recorder.num_dropped == 0
    assert len(found) == 5
    assert not any(item["span"].parent_span_id for item in found)


def test_an_endpoint_must_be_an_address() -> None:
    with pytest.raises(ConfigurationError, match="'collector:4318'"):
        OTelRecorder.over_http("collector:4318")
