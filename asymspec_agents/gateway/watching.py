"""What a gateway notes of its calls: counts for metrics, and events for a trace. Never a content."""

from __future__ import annotations

import logging

from ..recording import Recorder, headers_to_send, note_received
from ..wire.failures import Failure
from .answer import Call
from .events import EventTap
from .headers import RawHeaders
from .metrics import GatewayMetrics
from .preparing import Prepared
from .shadow import Shadow
from .upstream import Upstream

__all__ = ["Watch"]

logger = logging.getLogger("asymspec_agents.gateway")


class Watch:
    """The forwarder's observer."""

    def __init__(self, metrics: GatewayMetrics, shadow: Shadow, recorder: Recorder) -> None:
        self._metrics = metrics
        self._shadow = shadow
        self._recorder = recorder

    def prepared(self, call: Call, prepared: Prepared, speaks_asymspec: bool) -> None:
        self._metrics.prepared(prepared)
        report = prepared.report
        self._recorder.record(
            "gateway",
            request_id=call.request_id,
            path=call.path,
            model=call.model,
            view=prepared.view,
            speaks_asymspec=speaks_asymspec,
            full_tokens=None if report is None else report.full_tokens,
            compressed_tokens=None if report is None else report.compressed_tokens,
        )

    def began(self, call: Call) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in call.headers}
        note_received(self._recorder, call.request_id, headers)

    def headers(self, call: Call) -> RawHeaders:
        wanted = headers_to_send(self._recorder, call.request_id)
        return [(name.encode("latin-1"), value.encode("latin-1")) for name, value in wanted.items()]

    def wants_answer(self, call: Call, prepared: Prepared) -> bool:
        return self._shadow.wants(call, prepared)

    def failed(self, call: Call, failure: Failure) -> None:
        self._metrics.failed(failure.code)
        self._recorder.record("error", request_id=call.request_id, error_type=failure.code)
        logger.warning("request %s failed: %s", call.request_id, failure.code)

    def answered(
        self, call: Call, prepared: Prepared, upstream: Upstream, tap: EventTap, elapsed_s: float
    ) -> None:
        is_missing = prepared.view in ("both", "client") and not tap.has_report
        if is_missing:
            upstream.doubt()
            logger.warning("request %s: the upstream answered without AsymSpec's report", call.request_id)
        self._metrics.answered(tap, is_missing)
        self._recorder.record(
            "response",
            request_id=call.request_id,
            finish_reason=tap.finish_reason,
            num_tokens=tap.num_tokens,
            elapsed_s=elapsed_s,
        )
        if tap.kept is not None:
            self._shadow.offer(call, prepared, upstream, bytes(tap.kept), elapsed_s)
