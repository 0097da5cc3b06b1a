"""The gateway's counts in Prometheus' text format; no label holds what a client wrote."""

from __future__ import annotations

from ..errors import MissingDependencyError

try:
    from prometheus_client import (
        CONTENT_TYPE_LATEST,
        CollectorRegistry,
        Counter,
        Gauge,
        Histogram,
        generate_latest,
    )
except ImportError as error:
    raise MissingDependencyError("prometheus_client", "gateway") from error

from .events import EventTap
from .passage import Passages
from .preparing import Prepared

__all__ = ["CONTENT_TYPE", "GatewayMetrics"]

CONTENT_TYPE = CONTENT_TYPE_LATEST
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)


class GatewayMetrics:
    """One gateway's counts, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self._requests = Counter(
            "asymspec_gateway_requests", "Requests by path and status", ["path", "status"], registry=registry
        )
        self._duration = Histogram(
            "asymspec_gateway_request_duration_seconds",
            "From a request's head to its answer's end",
            ["path"],
            buckets=SECONDS,
            registry=registry,
        )
        self._open = Gauge("asymspec_gateway_open_requests", "Requests on their way", registry=registry)
        self._views = Counter(
            "asymspec_gateway_views",
            "Forwarded calls by what went upstream",
            ["view"],
            registry=registry,
        )
        self._full = Counter(
            "asymspec_compression_input_tokens", "Tokens of full views, by estimate", registry=registry
        )
        self._compressed = Counter(
            "asymspec_compression_output_tokens", "Tokens of compressed views, by estimate", registry=registry
        )
        self._degraded = Counter(
            "asymspec_compression_fallbacks", "Parts whose compressor failed", registry=registry
        )
        self._failures = Counter(
            "asymspec_gateway_upstream_failures", "Calls without a whole answer", ["code"], registry=registry
        )
        self._missing = Counter(
            "asymspec_gateway_missing_reports", "AsymSpec calls answered without a report", registry=registry
        )
        self._tokens = Counter(
            "asymspec_gateway_tokens", "Tokens as upstreams counted them", ["kind"], registry=registry
        )

    def watch(self, passages: Passages) -> None:
        """Shows how many requests are open whenever the metrics are read."""
        self._open.set_function(lambda: passages.num_open)

    def ended(self, path: str, status: int, elapsed_s: float) -> None:
        """A request has ended."""
        self._requests.labels(path, str(status)).inc()
        self._duration.labels(path).observe(elapsed_s)

    def prepared(self, prepared: Prepared) -> None:
        """A call is about to be sent."""
        self._views.labels(prepared.view).inc()
        if prepared.report is not None:
            self._full.inc(prepared.report.full_tokens)
            self._compressed.inc(prepared.report.compressed_tokens)
            self._degraded.inc(prepared.report.num_degraded)

    def failed(self, code: str) -> None:
        """An upstream failed."""
        self._failures.labels(code).inc()

    def answered(self, tap: EventTap, is_report_missing: bool) -> None:
        """An answer is whole."""
        if is_report_missing:
            self._missing.inc()
        for kind in ("prompt_tokens", "completion_tokens"):
            count = (tap.usage or {}).get(kind)
            if isinstance(count, int) and count > 0:
                self._tokens.labels(kind.removesuffix("_tokens")).inc(count)

    def text(self) -> bytes:
        """All of them, as a scraper reads them."""
        text: bytes = generate_latest(self._registry)
        return text
