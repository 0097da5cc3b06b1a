"""Traces: events of every decision, recorders that keep them, and the counts that follow from them."""

from .events import (
    BlockEvent,
    CallEvent,
    CompressEvent,
    ErrorEvent,
    Event,
    GatewayEvent,
    OtherEvent,
    PositionRecord,
    RateEvent,
    RequestEvent,
    ResponseEvent,
    RoleTokens,
    ShadowEvent,
    SummaryEvent,
    TextEvent,
    ViewEvent,
    dump_event,
    parse_event,
)
from .flops import Cost, break_even, cost
from .jsonl import JSONLRecorder
from .limits import RecordLimits
from .metrics import Metrics, RequestMetrics, measure, measure_requests
from .metrics_recorder import MetricsRecorder
from .reading import Trace, read_trace
from .recorder import MemoryRecorder, TeeRecorder
from .redaction import Redaction

__all__ = [
    "BlockEvent",
    "CallEvent",
    "CompressEvent",
    "Cost",
    "ErrorEvent",
    "Event",
    "GatewayEvent",
    "JSONLRecorder",
    "MemoryRecorder",
    "Metrics",
    "MetricsRecorder",
    "OtherEvent",
    "PositionRecord",
    "RateEvent",
    "RecordLimits",
    "Redaction",
    "RequestEvent",
    "RequestMetrics",
    "ResponseEvent",
    "RoleTokens",
    "ShadowEvent",
    "SummaryEvent",
    "TeeRecorder",
    "TextEvent",
    "Trace",
    "ViewEvent",
    "break_even",
    "cost",
    "dump_event",
    "measure",
    "measure_requests",
    "parse_event",
    "read_trace",
]
