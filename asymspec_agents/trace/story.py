"""A trace as a story: runs of calls, and for each call what was asked, what was read, and what came of it.

A run is the calls of one arm that work on one task, as their views tell (the first user message); calls
without a view belong to the run before them. An agent that plans in a prompt of its own makes more than one.
A view that names no request belongs to the request that follows it, if no other view came between.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .events import (
    BlockEvent,
    CallEvent,
    CompressEvent,
    ErrorEvent,
    Event,
    GatewayEvent,
    OtherEvent,
    PositionRecord,
    RequestEvent,
    ResponseEvent,
    RoleTokens,
    TextEvent,
    ViewEvent,
)
from .metrics import ROLES, Metrics, measure
from .reading import read_trace

__all__ = ["Call", "Latency", "Run", "Story", "read_story", "remarks", "tell"]


@dataclass(frozen=True, slots=True)
class Latency:
    """Seconds of a call's stages in their order; None where the trace does not say."""

    compress_s: float | None
    queue_s: float | None
    prefill_s: float | None
    decode_s: float | None

    def known(self) -> dict[str, float]:
        """The stages that are known, by name; a time that is no finite number is not."""
        stages = {
            "compress": self.compress_s,
            "queue": self.queue_s,
            "prefill": self.prefill_s,
            "decode": self.decode_s,
        }
        return {
            name: seconds
            for name, seconds in stages.items()
            if seconds is not None and math.isfinite(seconds)
        }


@dataclass(slots=True)
class Call:
    """One call of a model: its events by kind. `number` counts from 1 in the order of the trace."""

    number: int
    request_id: str
    view: ViewEvent | None = None
    request: RequestEvent | None = None
    gateway: GatewayEvent | None = None
    blocks: list[BlockEvent] = field(default_factory=list)
    response: ResponseEvent | None = None
    error: ErrorEvent | None = None
    others: list[Event] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    metrics: Metrics = field(default_factory=Metrics)

    def add(self, event: Event) -> None:
        """Takes in an event; the metrics are the caller's to add."""
        self.events.append(event)
        match event:
            case ViewEvent():
                self.view = event
            case RequestEvent():
                self.request = event
            case GatewayEvent():
                self.gateway = event
            case BlockEvent():
                self.blocks.append(event)
            case ResponseEvent():
                self.response = event
            case ErrorEvent():
                self.error = event
            case _:
                self.others.append(event)

    @property
    def arm(self) -> str | None:
        return self.request.arm if self.request is not None else None

    @property
    def ending(self) -> str | None:
        """How it ended; None where the trace stops before."""
        if self.error is not None:
            return self.error.error_type or "error"
        return self.response.finish_reason if self.response is not None else None

    @property
    def full_tokens(self) -> int | None:
        """Tokens of the full view: as the drafter counted them, else the router."""
        read = self.request.prompt_tokens.drafter if self.request is not None else 0
        return read or (self.view.full_tokens if self.view is not None else None)

    @property
    def compressed_tokens(self) -> int | None:
        """Tokens of the view that the verifier was given."""
        read = self.request.prompt_tokens.verifier if self.request is not None else 0
        return read or (self.view.compressed_tokens if self.view is not None else None)

    @property
    def computed_tokens(self) -> RoleTokens | None:
        """Prompt tokens that each reader computed, the others being reused."""
        if self.request is None:
            return None
        prompt, cached = self.request.prompt_tokens, self.request.cached_tokens
        return RoleTokens(**{role: max(0, getattr(prompt, role) - getattr(cached, role)) for role in ROLES})

    @property
    def latency(self) -> Latency:
        response, request = self.response, self.request
        prefill_s = response.prefill_s if response is not None else None
        decode_s = None
        if response is not None:
            decode_s = max(0.0, response.elapsed_s - (prefill_s or 0.0))
        return Latency(
            self.view.elapsed_s if self.view is not None else None,
            request.queue_s if request is not None else None,
            prefill_s,
            decode_s,
        )

    @property
    def answer(self) -> str | None:
        """The whole answer's text, where contents were captured."""
        if self.response is not None and self.response.text is not None:
            return self.response.text
        texts = [block.text for block in self.blocks]
        return "".join(text or "" for text in texts) if any(t is not None for t in texts) else None

    def positions(self) -> list[PositionRecord]:
        """Every position emitted, trimmed ones aside; from blocks without detail, as far as they tell."""
        found: list[PositionRecord] = []
        for block in self.blocks:
            found.extend(_positions(block))
        if self.response is not None and self.blocks and not self.blocks[-1].positions:
            found = found[: self.response.num_tokens]
        return [position for position in found if not position.is_trimmed]

    @property
    def num_changed(self) -> int | None:
        """Tokens that the full view changed; None where the trace does not tell."""
        known = [is_changed for one in self.positions() if (is_changed := one.is_changed) is not None]
        return known.count(True) if known else None


def _positions(block: BlockEvent) -> Sequence[PositionRecord]:
    if block.positions is not None:
        return block.positions
    origins = ["accepted"] * block.num_accepted + ["fused"] * block.num_fused + ["bonus"] * block.num_bonus
    if block.num_drafted == 0:
        origins = ["plain"] * len(origins)
    return [
        PositionRecord.model_construct(
            origin=origin, divergence=block.divergence[at] if at < len(block.divergence) else None
        )
        for at, origin in enumerate(origins)
    ]


@dataclass(frozen=True, slots=True)
class Run:
    """Calls on one task by one arm; `task` is its text, where contents were captured."""

    arm: str | None
    task_digest: str | None
    task: str | None
    calls: tuple[Call, ...]


@dataclass(frozen=True, slots=True)
class Story:
    """A whole trace; `texts` are the views' texts by digest, `notes` what could not be read."""

    title: str
    runs: tuple[Run, ...]
    texts: dict[str, str]
    notes: tuple[str, ...]
    total: Metrics
    num_events: int

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every call, in the order of the trace."""
        return tuple(sorted((call for run in self.runs for call in run.calls), key=lambda call: call.number))


def read_story(*paths: str | Path) -> Story:
    """The story of trace files together (a client's and its server's, or a trace that was rotated).

    Events are put in the order of their times where there are several files; a file that is named twice is
    read once. Raises OSError where a file cannot be read.
    """
    events: list[Event] = []
    notes: list[str] = []
    for path in _distinct(paths):
        trace = read_trace(path)
        events.extend(trace.events)
        notes.extend(f"{Path(path).name}, {note}" if len(paths) > 1 else note for note in trace.notes)
    if len(paths) > 1:
        events.sort(key=lambda event: event.timestamp_s)
    return tell(events, title=", ".join(Path(path).name for path in paths), notes=notes)


def _distinct(paths: Sequence[str | Path]) -> list[str | Path]:
    found: dict[tuple[int, int], str | Path] = {}
    for path in paths:
        status = os.stat(path)
        found.setdefault((status.st_dev, status.st_ino), path)
    return list(found.values())


def tell(events: Iterable[Event], *, title: str = "", notes: Sequence[str] = ()) -> Story:
    """The story of events in their order; an id that is used again, or tried again, is another call."""
    calls: list[Call] = []
    current: dict[str, Call] = {}
    texts: dict[str, str] = {}
    waiting: list[ViewEvent] = []  # of routers that were not told which request they work for
    alone: list[ViewEvent] = []
    total, num_events = Metrics(), 0
    for event in events:
        num_events += 1
        if isinstance(event, TextEvent):
            texts[event.digest] = event.text
            continue
        if event.request_id is None:
            total += measure([event])
            if isinstance(event, ViewEvent):
                waiting.append(event)
            continue
        call = current.get(event.request_id)
        if call is None or _begins_another(call, event):
            again = Call(len(calls) + 1, event.request_id)
            if call is not None and call.error is not None and isinstance(event, RequestEvent | ErrorEvent):
                again.view = None if waiting else call.view  # it is tried again
            call = current[event.request_id] = again
            calls.append(call)
        if isinstance(event, RequestEvent | ErrorEvent) and call.view is None and waiting:
            if len(waiting) == 1:
                call.view = waiting[0]
            else:  # one of them was refused, or calls overlap: none is better than another call's view
                alone.extend(waiting)
            waiting.clear()
        call.add(event)
    for call in calls:
        call.metrics = measure(call.events)
        total += call.metrics
    for view in alone + waiting:
        name = f"view {len(calls) + 1}"
        calls.append(Call(len(calls) + 1, name, view=view))
    return Story(title, _runs(calls, texts), texts, tuple(notes), total, num_events)


def _begins_another(call: Call, event: Event) -> bool:
    """Whether the event cannot belong to the call that had its id last."""
    if isinstance(event, RequestEvent) or (isinstance(event, ErrorEvent) and event.is_refusal):
        return call.request is not None or call.error is not None
    has_gone_on = call.request or call.gateway or call.response or call.error
    return isinstance(event, ViewEvent) and call.view is not None and has_gone_on is not None


def _runs(calls: Iterable[Call], texts: dict[str, str]) -> tuple[Run, ...]:
    groups: dict[tuple[str | None, str | None], list[Call]] = {}
    digest: str | None = None
    for call in calls:
        if call.view is not None:
            digest = call.view.task_digest
        groups.setdefault((digest, call.arm), []).append(call)
    return tuple(
        Run(arm, task, texts.get(task) if task is not None else None, tuple(group))
        for (task, arm), group in groups.items()
    )


def remarks(call: Call) -> list[str]:
    """What else happened during a call, a line each; no contents."""
    said = [
        f"a {kind} event was too large for the trace and lost {name}"
        for kind, name in dict.fromkeys(_losses(call))
    ]
    for event in call.others:
        if isinstance(event, CompressEvent):
            said.append(f"compressor {event.compressor} failed ({event.reason}); {event.fallback} instead")
        elif not isinstance(event, CallEvent | OtherEvent) or event.event.endswith(("failed", "fallback")):
            said.append(event.event.replace("_", " "))
    return said


def _losses(call: Call) -> Iterator[tuple[str, str]]:
    for event in call.events:
        names = (event.model_extra or {}).get("left_out")
        if isinstance(names, list):
            yield from ((event.event, name) for name in names if isinstance(name, str))
