"""What the server counts beside decoding, in the registry of its MetricsRecorder."""

from __future__ import annotations

from ..trace import metric_names as names
from ..trace.metrics_recorder import MetricsRecorder
from .queue import DecodeQueue

__all__ = ["ServerMetrics"]


class ServerMetrics:
    """One server's counts."""

    def __init__(self, decoding: MetricsRecorder, queue: DecodeQueue) -> None:
        self._decoding = decoding
        self._refusals = names.REFUSALS.make(decoding.registry)
        names.SERVER_OPEN.make(decoding.registry).set_function(lambda: queue.num_requests)

    @property
    def content_type(self) -> str:
        """The media type of `text()`."""
        return self._decoding.content_type

    def refused(self, code: str) -> None:
        """Counts a request that was not admitted, by the error's code."""
        self._refusals.labels(code).inc()

    def text(self) -> bytes:
        """All of them and what decoding counts, as a scraper reads them."""
        return self._decoding.text()
