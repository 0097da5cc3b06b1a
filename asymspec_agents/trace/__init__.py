"""Traces: events of every decision, recorders that keep them, and the counts that follow from them."""

from .events import (
    BlockEvent,
    CompressEvent,
    ErrorEvent,
    Event,
    GatewayEvent,
    OtherEvent,
    RateEvent,
    RequestEvent,
    ResponseEvent,
    RoleTokens,
    ShadowEvent,
    SummaryEvent,
    ViewEvent,
    dump_event,
    parse_event,
)
from .flops import Cost, break_even, cost
from .metrics import Metrics, RequestMetrics, measure, measure_requests
from .recorder import JSONLRecorder, MemoryRecorder, TeeRecorder, Trace, read_trace

__all__ = [
    "BlockEvent",
    "CompressEvent",
    "Cost",
    "ErrorEvent",
    "Event",
    "GatewayEvent",
    "JSONLRecorder",
    "MemoryRecorder",
    "Metrics",
    "OtherEvent",
    "RateEvent",
    "RequestEvent",
    "RequestMetrics",
    "ResponseEvent",
    "RoleTokens",
    "ShadowEvent",
    "SummaryEvent",
    "TeeRecorder",
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
