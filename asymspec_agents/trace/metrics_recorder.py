"""A recorder that counts events in Prometheus' metrics, each as `measure` counts it; it keeps no content."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ..decoding.modes import MAX_DRAFT_TOKENS
from ..errors import ConfigurationError, MissingDependencyError
from . import metric_names as names
from .events import (
    BlockEvent,
    CallEvent,
    CompressEvent,
    ErrorEvent,
    Event,
    OtherEvent,
    RequestEvent,
    ResponseEvent,
    SummaryEvent,
    ViewEvent,
    parse_event,
)
from .metric_names import Metric
from .metrics import ROLES
from .recorder import stamped

__all__ = ["MetricsRecorder", "Part"]

Part = Literal["engine", "compression", "client"]
"""Which metrics are offered: of decoding, of routers, of HTTPBackends."""

_PARTS: Mapping[str, tuple[Metric, ...]] = {
    "engine": names.ENGINE,
    "compression": names.COMPRESSION,
    "client": names.CLIENT,
}
_PART_OF = {RequestEvent: "engine", BlockEvent: "engine", ResponseEvent: "engine", ErrorEvent: "engine"}
_PART_OF |= {CallEvent: "client"}
KINDS = ("drafted", "accepted", "fused", "bonus")
ABORTED = "RequestAbortedError"
MAX_OPEN = 10_000  # requests that began and were never heard of again
MAX_VALUES = 100  # of one metric's label: beyond them they count as "other"


@dataclass(slots=True)
class _Open:
    """A request that has begun."""

    arm: str
    mode: str
    num_judged: int = 0
    divergence_sum: float = 0.0


class MetricsRecorder:
    """Counts what is recorded; `text()` is what a scraper reads.

    `parts` are the metrics offered, all by default; events of others are passed over. `registry` is a
    prometheus_client registry, a new one by default. `num_dropped` counts what was no event. Needs the extra
    `metrics`.
    """

    captures_content = False
    keeps_no_content = True

    def __init__(
        self,
        parts: Iterable[Part] = get_args(Part),
        *,
        registry: Any = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        try:
            from prometheus_client import CollectorRegistry
        except ImportError as error:
            raise MissingDependencyError("prometheus_client", "metrics") from error
        chosen = (parts,) if isinstance(parts, str) else tuple(parts)
        for part in chosen:
            if part not in _PARTS:
                raise ConfigurationError(f"parts: {part!r} must be one of {', '.join(_PARTS)}")
        self.registry: Any = CollectorRegistry() if registry is None else registry
        self.num_dropped = 0
        self._parts = frozenset(chosen)
        self._made = {m: m.make(self.registry) for part in _PARTS if part in chosen for m in _PARTS[part]}
        self._seen: dict[tuple[Metric, int], set[str]] = {}
        self._open: OrderedDict[str | None, deque[_Open]] = OrderedDict()
        self._clock = clock
        self._lock = threading.Lock()

    def record(self, event: str, /, **fields: Any) -> None:
        """Counts one event."""
        try:
            parsed = parse_event(stamped(event, fields, self._clock()))
            with self._lock:
                if _PART_OF.get(type(parsed), "compression") in self._parts:
                    self._count(parsed)
        except Exception:  # a recorder never raises into its caller
            with self._lock:
                self.num_dropped += 1

    def text(self) -> bytes:
        """All metrics of the registry in Prometheus' text format."""
        from prometheus_client import generate_latest

        text: bytes = generate_latest(self.registry)
        return text

    @property
    def content_type(self) -> str:
        """The media type of `text()`."""
        from prometheus_client import CONTENT_TYPE_LATEST

        return str(CONTENT_TYPE_LATEST)

    def _count(self, event: Event) -> None:
        match event:
            case RequestEvent():
                self._began(event)
            case BlockEvent():
                self._block(event)
            case ResponseEvent():
                self._answered(event)
            case ErrorEvent():
                self._failed(event)
            case CallEvent():
                self._called(event)
            case ViewEvent():
                self._add(names.VIEWS)
                self._add(names.FULL_TOKENS, event.full_tokens)
                self._add(names.COMPRESSED_TOKENS, event.compressed_tokens)
                self._add(names.DEGRADED, event.num_degraded)
                self._observe(names.COMPRESS, event.elapsed_s)
            case CompressEvent():
                self._add(names.COMPRESSOR_FALLBACKS, 1, event.reason)
            case SummaryEvent():
                self._add(names.SUMMARIES)
                self._add(names.SUMMARY_TOKENS, event.prompt_tokens, "prompt")
                self._add(names.SUMMARY_TOKENS, event.completion_tokens, "completion")
            case OtherEvent(event="route_failed"):
                self._add(names.ROUTE_FAILURES, 1, (event.model_extra or {}).get("error"))

    def _began(self, event: RequestEvent) -> None:
        begun = _Open(event.arm or "unknown", event.mode or "unknown")
        self._open.setdefault(event.request_id, deque()).append(begun)
        if len(self._open) > MAX_OPEN:
            self._open.popitem(last=False)
        self._add(names.MODE_FALLBACKS, int(event.fallback is not None))
        for role in ROLES:
            self._add(names.PROMPT_TOKENS, getattr(event.prompt_tokens, role), role)
            self._add(names.CACHED_TOKENS, getattr(event.cached_tokens, role), role)
        self._observe(names.QUEUE, event.queue_s)

    def _block(self, event: BlockEvent) -> None:
        self._add(names.BLOCKS)
        for kind in KINDS:
            self._add(names.TOKENS, getattr(event, f"num_{kind}"), kind)
        for metric, number in (
            (names.DRAFTED_PER_POSITION, event.num_drafted),
            (names.ACCEPTED_PER_POSITION, event.num_accepted),
        ):
            for position in range(min(number, MAX_DRAFT_TOKENS)):
                self._add(metric, 1, str(position + 1))
        judged = [number for number in event.divergence if math.isfinite(number)]
        for divergence in judged:
            self._observe(names.POSITION_DIVERGENCE, divergence)
        begun = self._open.get(event.request_id)
        if begun:
            begun[0].num_judged += len(judged)
            begun[0].divergence_sum += sum(judged)

    def _answered(self, event: ResponseEvent) -> None:
        self._end(event.request_id, "finished")
        self._add(names.ANSWER_TOKENS, event.num_tokens)
        self._forwarded(event)
        self._observe(names.DURATION, event.elapsed_s)
        self._observe(names.PREFILL, event.prefill_s)
        self._observe(names.FIRST_TOKEN, event.time_to_first_token_s)
        if event.prefill_s is not None:
            self._observe(names.DECODE, max(0.0, event.elapsed_s - event.prefill_s))

    def _failed(self, event: ErrorEvent) -> None:
        self._add(names.ERRORS, 1, event.error_type)
        if event.is_refusal:  # nothing began; the same id may be another request's
            self._add(names.REQUESTS, 1, "unknown", "unknown", "refused")
            return
        self._end(event.request_id, "aborted" if event.error_type == ABORTED else "failed")
        self._forwarded(event)

    def _forwarded(self, event: ResponseEvent | ErrorEvent) -> None:
        for role in ROLES:
            self._add(names.FORWARDED_TOKENS, getattr(event.forwarded_tokens, role), role)

    def _end(self, request_id: str | None, outcome: str) -> None:
        waiting = self._open.get(request_id)
        begun = waiting.popleft() if waiting else _Open("unknown", "unknown")
        if not waiting:
            self._open.pop(request_id, None)
        self._add(names.REQUESTS, 1, begun.arm, begun.mode, outcome)
        if begun.num_judged:
            self._observe(names.DIVERGENCE, begun.divergence_sum / begun.num_judged)

    def _called(self, event: CallEvent) -> None:
        outcome = "finished"
        if event.error_type is not None:
            outcome = "aborted" if event.error_type == ABORTED else "failed"
            self._add(names.CLIENT_ERRORS, 1, event.error_type)
        self._add(names.CLIENT_REQUESTS, 1, event.arm, event.mode, outcome)
        self._observe(names.CLIENT_DURATION, event.elapsed_s)
        self._observe(names.CLIENT_FIRST_TOKEN, event.time_to_first_token_s)
        self._add(names.CLIENT_ANSWER_TOKENS, event.completion_tokens or 0)
        for role in ROLES:
            self._add(names.CLIENT_PROMPT_TOKENS, getattr(event.reader_tokens, role), role)
            self._add(names.CLIENT_CACHED_TOKENS, getattr(event.cached_tokens, role), role)
        for kind in KINDS:
            self._add(names.CLIENT_TOKENS, getattr(event, f"num_{kind}"), kind)

    def _add(self, metric: Metric, number: int = 1, *labels: Any) -> None:
        made = self._made[metric]
        if labels:
            made = made.labels(*(self._label(metric, at, value) for at, value in enumerate(labels)))
        made.inc(number)

    def _observe(self, metric: Metric, value: float | None) -> None:
        if value is not None and math.isfinite(value) and value >= 0:
            self._made[metric].observe(value)

    def _label(self, metric: Metric, at: int, value: Any) -> str:
        """The value, or "other" where a metric has too many of them already."""
        text = str(value)[:100] if value else "unknown"
        seen = self._seen.setdefault((metric, at), set())
        if text not in seen and len(seen) >= MAX_VALUES:
            return "other"
        seen.add(text)
        return text
