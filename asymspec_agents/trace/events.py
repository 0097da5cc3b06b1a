"""The events of a trace: one typed record per decision, and their form on a line of JSON.

A request leaves `view` (the router's), `request`, one `block` per speculation block, and `response` or
`error`; where contents are captured, a `text` for each text of its views before the `view` that names it;
`compress` reports a compressor that failed and what took its place, `summary` what a summary by a model cost,
`rate` what an adaptive ratio read and did, `gateway` what a gateway forwarded, `shadow` how an answer differs
from the full view's, `call` what a client made of one call of a server. A compressor by a model adds
`compress_progress` (how far it is) and `compress_fallback` (a text that it leaves to another).

Invariants:
- Fields an event type does not know are kept; so are events of unknown kinds, as `OtherEvent`.
- `parse_event(json.loads(dump_event(event))) == event` for every event without NaN in a typed field.
- `dump_event` is valid JSON for every event: lone surrogates are escaped, numbers JSON lacks are written as
  the strings "NaN", "Infinity" and "-Infinity" (which typed number fields read back as numbers).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ..messages import Text
from .plain import plain_json
from .records import FROM_JSON, BlockCount, Count, PositionRecord, Record, RoleTokens

__all__ = [
    "KINDS",
    "BlockEvent",
    "CallEvent",
    "CompressEvent",
    "ErrorEvent",
    "Event",
    "GatewayEvent",
    "OtherEvent",
    "PositionRecord",
    "RateEvent",
    "RequestEvent",
    "ResponseEvent",
    "RoleTokens",
    "ShadowEvent",
    "SummaryEvent",
    "TextEvent",
    "ViewEvent",
    "dump_event",
    "parse_event",
]


class Event(Record):
    """What all events have: their kind, when (seconds since the epoch), and the request they belong to."""

    event: Text
    timestamp_s: float
    request_id: Text | None = None


class TextEvent(Event):
    """One text of a view, recorded once a file: views name it by its digest, the sha256 of what it was."""

    event: Literal["text"] = "text"
    digest: Text
    text: Text


class ViewEvent(Event):
    """The router built both views; token counts are the router's own, `elapsed_s` the time it took.

    `task_digest` tells conversations apart: the digest of the first user message. `messages` stands where
    contents or detail are wanted; its form is that of `views.recorded`.
    """

    event: Literal["view"] = "view"
    elapsed_s: float | None = None
    task_digest: Text | None = None
    messages: tuple[dict[str, Any], ...] | None = None
    num_messages: Count = 0
    num_edits: Count = 0
    num_compressed_parts: Count = 0
    num_degraded: Count = 0
    full_tokens: Count = 0
    compressed_tokens: Count = 0


class RequestEvent(Event):
    """Decoding begins: what was asked, what runs, and each prompt's length and reuse.

    `cached_tokens` are the prompt tokens an earlier call left in the cache; `fallback` says why `mode` is
    not the mode asked for; `queue_s` how long the request waited, in a server's queue and for the engine.
    """

    event: Literal["request"] = "request"
    model: Text | None = None
    arm: Text | None = None
    mode: Text | None = None
    gate: Text | None = None
    delta: Text | None = None
    beta: float | None = None
    gamma: float | None = None
    num_draft_tokens: Count | None = None
    bonus: Text | None = None
    prompt_tokens: RoleTokens = RoleTokens()
    cached_tokens: RoleTokens = RoleTokens()
    fallback: Text | None = None
    queue_s: float | None = None


class BlockEvent(Event):
    """One block: proposals, their fate, and JSD(a‖b) in nats of each position the gate judged.

    `num_drafted` counts every proposal, those behind a refusal too; accepted + fused + bonus is what the
    block emitted before trimming. `token_ids`, `text` and `origins` stand only where contents are captured,
    `positions` at level "detail".
    """

    event: Literal["block"] = "block"
    index: Count
    num_drafted: BlockCount
    num_accepted: BlockCount
    num_fused: BlockCount = 0
    num_bonus: BlockCount = 0
    divergence: tuple[float, ...] = ()
    elapsed_s: float = 0.0
    token_ids: tuple[int, ...] | None = None
    text: Text | None = None
    origins: tuple[Text, ...] | None = None
    positions: tuple[PositionRecord, ...] | None = None


class ResponseEvent(Event):
    """A request is answered: tokens after trimming, time, and every position each model computed.

    `forwarded_tokens` includes the prefill; a position computed twice counts twice. `text` is the whole
    answer, where contents are captured.
    """

    event: Literal["response"] = "response"
    finish_reason: Text | None = None
    num_tokens: Count = 0
    elapsed_s: float = 0.0
    prefill_s: float | None = None
    time_to_first_token_s: float | None = None
    text: Text | None = None
    forwarded_tokens: RoleTokens = RoleTokens()


class CallEvent(Event):
    """A client's call of a server has ended, well or with an error; counts are what the server told.

    `server` is its base URL; `mode` what the report names; `time_to_first_token_s` stands for streams only;
    `text` is the whole answer, where contents are captured.
    """

    event: Literal["call"] = "call"
    operation: Text | None = None
    model: Text | None = None
    server: Text | None = None
    arm: Text | None = None
    mode: Text | None = None
    fallback: Text | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    is_stream: bool | None = None
    finish_reason: Text | None = None
    error_type: Text | None = None
    elapsed_s: float = 0.0
    time_to_first_token_s: float | None = None
    prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    reader_tokens: RoleTokens = RoleTokens()
    cached_tokens: RoleTokens = RoleTokens()
    num_drafted: Count = 0
    num_accepted: Count = 0
    num_fused: Count = 0
    num_bonus: Count = 0
    text: Text | None = None


class CompressEvent(Event):
    """A compressor failed or was too slow; `fallback` names the rendition that took its place."""

    event: Literal["compress"] = "compress"
    compressor: Text | None = None
    reason: Text | None = None
    fallback: Text | None = None
    elapsed_s: float = 0.0


class SummaryEvent(Event):
    """A model wrote a summary, or failed to: what its calls cost, in that model's tokens."""

    event: Literal["summary"] = "summary"
    model: Text | None = None
    num_calls: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    elapsed_s: float = 0.0


class RateEvent(Event):
    """An adaptive ratio read an answer: the smoothed figures, and the ratio of turns from `from_turn` on."""

    event: Literal["rate"] = "rate"
    reason: Text | None = None
    ratio_before: float | None = None
    ratio: float | None = None
    from_turn: int | None = None
    divergence: float | None = None
    acceptance: float | None = None


class GatewayEvent(Event):
    """A gateway is about to forward a call; token counts are None where nothing was routed."""

    event: Literal["gateway"] = "gateway"
    path: Text | None = None
    model: Text | None = None
    view: Text | None = None
    speaks_asymspec: bool | None = None
    full_tokens: Count | None = None
    compressed_tokens: Count | None = None


class ShadowEvent(Event):
    """A call was answered from the full view as well: how far the answers agree, what both cost."""

    event: Literal["shadow"] = "shadow"
    is_equal: bool | None = None
    similarity: float | None = None
    prompt_tokens: Count | None = None
    full_prompt_tokens: Count | None = None
    completion_tokens: Count | None = None
    full_completion_tokens: Count | None = None
    elapsed_s: float | None = None
    full_elapsed_s: float | None = None
    error_type: Text | None = None


class ErrorEvent(Event):
    """A request ended without an answer; `forwarded_tokens` is the work done for it until then.

    A refusal comes before any work, so no RequestEvent precedes it.
    """

    event: Literal["error"] = "error"
    error_type: Text | None = None
    message: Text | None = None
    is_refusal: bool = False
    forwarded_tokens: RoleTokens = RoleTokens()


class OtherEvent(Event):
    """An event of an unknown kind, or of a known one with fields of the wrong type, kept as it came."""


KINDS = frozenset(
    {
        "text",
        "view",
        "request",
        "block",
        "response",
        "compress",
        "summary",
        "rate",
        "gateway",
        "shadow",
        "call",
        "error",
    }
)
"""The kinds of event that have a type of their own."""

_KNOWN: TypeAdapter[Event] = TypeAdapter(
    Annotated[
        TextEvent
        | ViewEvent
        | RequestEvent
        | BlockEvent
        | ResponseEvent
        | CompressEvent
        | SummaryEvent
        | RateEvent
        | GatewayEvent
        | ShadowEvent
        | CallEvent
        | ErrorEvent,
        Field(discriminator="event"),
    ]
)


def parse_event(data: Mapping[str, Any], *, is_json: bool = False) -> Event:
    """The typed event, or an OtherEvent where the data fit no known type.

    `is_json`: the data were read from strict JSON, so that nothing in them has to be made plain. Raises
    pydantic.ValidationError where even `event` or `timestamp_s` is missing or malformed.
    """
    context = FROM_JSON if is_json else None
    try:
        return _KNOWN.validate_python(data, context=context)
    except ValidationError:
        return OtherEvent.model_validate(data, context=context)


def dump_event(event: Event) -> str:
    """The event as one line of JSON, without the newline; fields that were not given are left out."""
    data = {**event.model_dump(exclude_unset=True), "event": event.event}
    return json.dumps(plain_json(data), allow_nan=False, separators=(",", ":"))
