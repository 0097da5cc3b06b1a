"""The gateway's counts in Prometheus' text format; no label holds what a client wrote."""

from __future__ import annotations

from ..errors import MissingDependencyError

try:
    from prometheus_client import CONTENT_TYPE_LATEST
except ImportError as error:
    raise MissingDependencyError("prometheus_client", "gateway") from error

from ..recording import Recorder
from ..trace import metric_names as names
from ..trace.metrics_recorder import MetricsRecorder
from .events import EventTap
from .passage import Passages
from .preparing import Prepared

__all__ = ["CONTENT_TYPE", "GatewayMetrics"]

CONTENT_TYPE = CONTENT_TYPE_LATEST


class GatewayMetrics:
    """One gateway's counts, in a registry of their own; what its routers count comes through `recorder`."""

    def __init__(self) -> None:
        self._counted = MetricsRecorder(("compression",))
        registry = self._counted.registry
        self._requests = names.GATEWAY_REQUESTS.make(registry)
        self._duration = names.GATEWAY_DURATION.make(registry)
        self._open = names.GATEWAY_OPEN.make(registry)
        self._views = names.GATEWAY_VIEWS.make(registry)
        self._failures = names.GATEWAY_FAILURES.make(registry)
        self._missing = names.GATEWAY_MISSING.make(registry)
        self._tokens = names.GATEWAY_TOKENS.make(registry)

    @property
    def recorder(self) -> Recorder:
        """Counts what the gateway's routers record."""
        return self._counted

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
        return self._counted.text()
