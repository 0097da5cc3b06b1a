"""A recorder that makes OpenTelemetry spans: one a call of a model, with its stages below it.

Source: OpenTelemetry's semantic conventions for generative AI (names copied, as they are still in
development), and W3C Trace Context for `traceparent`.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.parse
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigurationError, MissingDependencyError

try:
    from opentelemetry import trace
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as error:
    raise MissingDependencyError("opentelemetry_sdk", "otel") from error

from .._version import __version__
from .events import BlockEvent as Block
from .events import (
    CallEvent,
    ErrorEvent,
    Event,
    GatewayEvent,
    RequestEvent,
    ResponseEvent,
    ViewEvent,
    parse_event,
)
from .recorder import stamped

__all__ = ["OTelRecorder"]

MAX_OPEN = 10_000  # calls that began and were never heard of again
NS = 1_000_000_000
KINDS = ("drafted", "accepted", "fused", "bonus")
_W3C = TraceContextTextMapPropagator()


@dataclass(slots=True)
class _Call:
    """What is known of a call that has not ended."""

    parent: Context | None = None
    received_ns: int | None = None
    span: Any = None
    request: RequestEvent | None = None
    gateway: GatewayEvent | None = None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    num_blocks: int = 0


class OTelRecorder:
    """Makes a span for each call that is recorded, by a client, a gateway or an engine.

    Its parent is the span that is current where the call is made, or the `traceparent` that a server was
    sent; an HTTPBackend and a gateway send their own on. `provider` is the application's TracerProvider, the
    global one by default. Contents leave only with `captures_content`. `num_dropped` counts what was lost.
    """

    def __init__(
        self,
        provider: Any = None,
        *,
        captures_content: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.captures_content = captures_content
        self.num_dropped = 0
        self._owned: Any = None
        self._tracer = (provider or trace.get_tracer_provider()).get_tracer("asymspec_agents", __version__)
        self._clock = clock
        self._lock = threading.Lock()
        self._calls: OrderedDict[str, _Call] = OrderedDict()

    @classmethod
    def over_http(
        cls,
        endpoint: str,
        *,
        service: str = "asymspec",
        headers: Mapping[str, str] | None = None,
        captures_content: bool = False,
    ) -> OTelRecorder:
        """A recorder with a provider of its own that exports by OTLP over HTTP; `close` sends the rest.

        `endpoint` is a collector's address (`/v1/traces` is added to one without a path).
        """
        parts = urllib.parse.urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigurationError(f"endpoint={endpoint!r} must be an http:// or https:// address")
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
        except ImportError as error:
            raise MissingDependencyError("opentelemetry_exporter_otlp_proto_http", "otel") from error
        url = endpoint if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}/v1/traces"
        provider = TracerProvider(resource=Resource.create({"service.name": service}), shutdown_on_exit=False)
        exporter = OTLPSpanExporter(endpoint=url, headers=dict(headers or {}))
        provider.add_span_processor(BatchSpanProcessor(exporter))
        recorder = cls(provider, captures_content=captures_content)
        recorder._owned = provider
        return recorder

    @property
    def keeps_no_content(self) -> bool:
        """Whether contents that it is given go nowhere."""
        return not self.captures_content

    def close(self) -> None:
        """Sends what is left, where the provider is the recorder's own; an application closes its own."""
        if self._owned is not None:
            self._owned.shutdown()

    def received(self, request_id: str, headers: Mapping[str, str]) -> None:
        """A server was sent this request: its span belongs to the one that `traceparent` names."""
        try:
            context = _W3C.extract(
                {name: headers[name] for name in _W3C.fields if name in headers}, Context()
            )
            with self._lock:
                self._call(request_id, _Call(context, int(self._clock() * NS)))
        except Exception:
            self._drop()

    def to_send(self, request_id: str) -> Mapping[str, str]:
        """`traceparent` of the call's span, which begins here."""
        carrier: dict[str, str] = {}
        try:
            with self._lock:
                call = self._calls.get(request_id) or self._call(request_id, _Call())
                if call.span is None:
                    kind = SpanKind.CLIENT if call.received_ns is None else SpanKind.SERVER
                    call.span = self._start("chat", kind, call, call.received_ns)
                _W3C.inject(carrier, trace.set_span_in_context(call.span, Context()))
        except Exception:
            self._drop()
        return carrier

    def record(self, event: str, /, **fields: Any) -> None:
        """Takes one event in; spans are made when their calls end."""
        try:
            parsed = parse_event(stamped(event, fields, self._clock()))
            with self._lock:
                self._take(parsed)
        except Exception:  # a recorder never raises into its caller
            self._drop()

    def _drop(self) -> None:
        with self._lock:
            self.num_dropped += 1

    def _call(self, request_id: str, call: _Call) -> _Call:
        self._calls[request_id] = call
        if len(self._calls) > MAX_OPEN:
            self._calls.popitem(last=False)
        return call

    def _start(self, name: str, kind: Any, call: _Call, start_ns: int | None) -> Any:
        return self._tracer.start_span(name, context=call.parent, kind=kind, start_time=start_ns)

    def _take(self, event: Event) -> None:
        request_id = event.request_id or ""
        match event:
            case ViewEvent():
                self._view(event)
            case RequestEvent() | GatewayEvent():
                call = self._calls.get(request_id) or self._call(request_id, _Call())
                if isinstance(event, RequestEvent):
                    call.request = event
                    if call.span is None:
                        began_ns = int((event.timestamp_s - (event.queue_s or 0.0)) * NS)
                        kind = SpanKind.INTERNAL if call.received_ns is None else SpanKind.SERVER
                        call.span = self._start("chat", kind, call, call.received_ns or began_ns)
                else:
                    call.gateway = event
            case Block():
                if (known := self._calls.get(request_id)) is not None:
                    known.num_blocks += 1
                    for kind in KINDS:
                        known.counts[kind] += getattr(event, f"num_{kind}")
            case ResponseEvent() | ErrorEvent() | CallEvent():
                self._end(event, self._calls.pop(request_id, _Call()))

    def _view(self, event: ViewEvent) -> None:
        call = self._calls.get(event.request_id or "") or _Call()
        end_ns = int(event.timestamp_s * NS)
        span = self._start(
            "asymspec.compress", SpanKind.INTERNAL, call, end_ns - int((event.elapsed_s or 0.0) * NS)
        )
        given: dict[str, float] = {
            "asymspec.full.tokens": event.full_tokens,
            "asymspec.compressed.tokens": event.compressed_tokens,
            "asymspec.edits": event.num_edits,
            "asymspec.degraded_parts": event.num_degraded,
        }
        if event.full_tokens:
            given["asymspec.compression.ratio"] = event.compressed_tokens / event.full_tokens
        span.set_attributes(given)
        span.end(end_ns)

    def _end(self, event: ResponseEvent | ErrorEvent | CallEvent, call: _Call) -> None:
        end_ns = int(event.timestamp_s * NS)
        elapsed_s = getattr(event, "elapsed_s", 0.0)
        if call.span is None:
            kind = SpanKind.CLIENT if isinstance(event, CallEvent) else SpanKind.INTERNAL
            call.span = self._start("chat", kind, call, call.received_ns or end_ns - int(elapsed_s * NS))
        attributes = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "asymspec"}
        attributes |= _of_call(event) if isinstance(event, CallEvent) else _of_engine(event, call)
        if self.captures_content and getattr(event, "text", None) is not None:
            attributes["gen_ai.output.messages"] = _messages(event)
        known = {name: value for name, value in attributes.items() if value is not None}
        call.span.set_attributes(known)
        model = known.get("gen_ai.request.model")
        call.span.update_name(" ".join(filter(None, (known["gen_ai.operation.name"], model))))
        error_type = getattr(event, "error_type", None)
        if error_type is not None or isinstance(event, ErrorEvent):
            call.span.set_attribute("error.type", error_type or "_OTHER")
            call.span.set_status(Status(StatusCode.ERROR))  # without the message, which may quote contents
        if isinstance(event, ResponseEvent):
            self._stages(event, call, end_ns)
        call.span.end(end_ns)

    def _stages(self, event: ResponseEvent, call: _Call, end_ns: int) -> None:
        """Spans of the stages that are known: they follow each other up to the answer's end."""
        if event.prefill_s is None:
            return
        below = _Call(trace.set_span_in_context(call.span, Context()))
        start_ns = end_ns - int(event.elapsed_s * NS)
        prefilled_ns = min(end_ns, start_ns + int(event.prefill_s * NS))
        stages = [("asymspec.prefill", start_ns, prefilled_ns), ("asymspec.decode", prefilled_ns, end_ns)]
        queue_s = None if call.request is None else call.request.queue_s
        if queue_s is not None:
            stages.insert(0, ("asymspec.queue", start_ns - int(queue_s * NS), start_ns))
        for name, since_ns, until_ns in stages:
            self._start(name, SpanKind.INTERNAL, below, since_ns).end(until_ns)


def _of_call(event: CallEvent) -> dict[str, Any]:
    parts = urllib.parse.urlsplit(event.server or "")
    return {
        "gen_ai.operation.name": event.operation or "chat",
        "gen_ai.request.model": event.model,
        "gen_ai.request.max_tokens": event.max_tokens,
        "gen_ai.request.temperature": event.temperature,
        "gen_ai.request.stream": event.is_stream,
        "gen_ai.response.finish_reasons": None if event.finish_reason is None else [event.finish_reason],
        "gen_ai.response.time_to_first_chunk": event.time_to_first_token_s,
        "gen_ai.usage.input_tokens": event.prompt_tokens,
        "gen_ai.usage.output_tokens": event.completion_tokens,
        "gen_ai.usage.cache_read.input_tokens": event.cached_tokens.verifier,
        "server.address": parts.hostname,
        "server.port": parts.port,
        "asymspec.arm": event.arm,
        "asymspec.mode": event.mode,
        "asymspec.fallback": event.fallback,
        "asymspec.full.tokens": event.reader_tokens.drafter or None,
        "asymspec.compressed.tokens": event.reader_tokens.verifier or None,
        **{f"asymspec.{kind}.tokens": getattr(event, f"num_{kind}") for kind in KINDS},
    }


def _of_engine(event: ResponseEvent | ErrorEvent, call: _Call) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if call.gateway is not None:
        found |= {
            "gen_ai.request.model": call.gateway.model,
            "asymspec.view.kind": call.gateway.view,
            "asymspec.full.tokens": call.gateway.full_tokens,
            "asymspec.compressed.tokens": call.gateway.compressed_tokens,
        }
    request = call.request
    if request is not None:
        found |= {
            "gen_ai.request.model": request.model,
            "gen_ai.usage.input_tokens": request.prompt_tokens.verifier,
            "gen_ai.usage.cache_read.input_tokens": request.cached_tokens.verifier,
            "asymspec.arm": request.arm,
            "asymspec.mode": request.mode,
            "asymspec.fallback": request.fallback,
            "asymspec.full.tokens": request.prompt_tokens.drafter or None,
            "asymspec.compressed.tokens": request.prompt_tokens.verifier or None,
            "asymspec.blocks": call.num_blocks,
            **{f"asymspec.{kind}.tokens": call.counts[kind] for kind in KINDS},
        }
    if isinstance(event, ResponseEvent):
        found |= {
            "gen_ai.response.finish_reasons": None if event.finish_reason is None else [event.finish_reason],
            "gen_ai.response.time_to_first_chunk": event.time_to_first_token_s,
            "gen_ai.usage.output_tokens": event.num_tokens,
        }
    return found


def _messages(event: Any) -> str:
    parts = [{"type": "text", "content": event.text}]
    return json.dumps([{"role": "assistant", "parts": parts, "finish_reason": event.finish_reason}])
