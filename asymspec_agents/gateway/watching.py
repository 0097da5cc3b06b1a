"""What a gateway notes of its calls: counts for metrics, and events for a trace. Never a content."""

from __future__ import annotations

import logging

from ..recording import Recorder
from ..wire.failures import Failure
from .answer import Call
from .events import EventTap
from .metrics import GatewayMetrics
from .preparing import Prepared
from .upstream import Upstream

__all__ = ["Watch"]

logger = logging.getLogger("asymspec_agents.gateway")


class Watch:
    """The forwarder's observer."""

    def __init__(self, metrics: GatewayMetrics, recorder: Recorder) -> None:
        self._metrics = metrics
        self._recorder = recorder

    def prepared(self, call: Call, prepared: Prepared, speaks_asymspec: bool) -> None:
        self._metrics.prepared(prepared)
        self._recorder.record(
            "gateway_call",
            request_id=call.request_id,
            path=call.path,
            view=prepared.view,
            speaks_asymspec=speaks_asymspec,
            num_bytes=len(prepared.content),
        )

    def wants_answer(self, call: Call, prepared: Prepared) -> bool:
        return False

    def failed(self, call: Call, failure: Failure) -> None:
        self._metrics.failed(failure.code)
        self._recorder.record(
            "gateway_failure", request_id=call.request_id, status=failure.status, code=failure.code
        )
        logger.warning("request %s failed: %s", call.request_id, failure.code)

    def answered(self, call: Call, prepared: Prepared, upstream: Upstream, tap: EventTap) -> None:
        is_missing = prepared.view in ("both", "client") and not tap.has_report
        if is_missing:
            upstream.doubt()
            logger.warning("request %s: the upstream answered without AsymSpec's report", call.request_id)
        self._metrics.answered(tap, is_missing)
