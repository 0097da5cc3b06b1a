"""The events of a trace: one typed record per decision, and their form on a line of JSON.

A request leaves `view` (the router's), `request`, one `block` per speculation block, and `response` or
`error`; where contents are captured, a `text` for each text of its views before the `view` that names it;
`compress` reports a compressor that failed and what took its place, `summary` what a summary by a model cost,
`rate` what an adaptive ratio read and did, `gateway` what a gateway forwarded, `shadow` how an answer differs
from the full view's. A compressor by a model adds `compress_progress` (how far it is) and `compress_fallback`
(a text that it leaves to another).

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

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from ..messages import Text
from .plain import plain_json

__all__ = [
    "KINDS",
    "BlockEvent",
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

Count = Annotated[int, Field(ge=0, le=2**53)]  # what a page can count with
BlockCount = Annotated[int, Field(ge=0, le=100_000)]  # metrics count each position of a block


_FROM_JSON = {"from_json": True}  # what comes from a JSON file is plain already


class _Record(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any, info: ValidationInfo) -> Any:
        if info.context is _FROM_JSON or not isinstance(data, Mapping):
            return data
        return plain_json(data)


class RoleTokens(_Record):
    """A number of tokens for each reader of a prompt: the verifier, and the drafter's two passes."""

    verifier: Count = 0
    base: Count = 0
    drafter: Count = 0

    def __add__(self, other: RoleTokens) -> RoleTokens:
        return RoleTokens.model_construct(  # sums of valid counts need no validation
            verifier=self.verifier + other.verifier,
            base=self.base + other.base,
            drafter=self.drafter + other.drafter,
        )


class Event(_Record):
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


class PositionRecord(_Record):
    """One emitted position at level "detail".

    `p_t`, `p_a`, `p_b`: the draft's probability by the verifier, by the drafter on the full view, and by the
    drafter on the compressed one; `emitted_p_t` the emitted token's by the verifier. `is_argmax`: the
    verifier alone would have emitted the same. `best_*`: each reader's likeliest tokens as [probability, id,
    text], ids and texts only where contents are captured, as are `token_id`, `text` (what the token added to
    the answer), `token` (its own text where that is another) and the same of `draft` and `argmax` where they
    are other tokens. `is_trimmed`: behind the answer's end.
    """

    origin: Text
    is_argmax: bool | None = None
    emitted_p_t: float | None = None
    p_t: float | None = None
    p_a: float | None = None
    p_b: float | None = None
    divergence: float | None = None
    gamma_eff: float | None = None
    is_trimmed: bool = False
    best_t: tuple[tuple[Any, ...], ...] = ()
    best_a: tuple[tuple[Any, ...], ...] = ()
    best_b: tuple[tuple[Any, ...], ...] = ()
    token_id: int | None = None
    text: Text | None = None
    token: Text | None = None
    draft_id: int | None = None
    draft: Text | None = None
    argmax_id: int | None = None
    argmax: Text | None = None

    @property
    def is_changed(self) -> bool | None:
        """Whether the full view changed the token; one that was drawn without any draft is not changed."""
        return None if self.is_argmax is None else not self.is_argmax and self.origin != "plain"


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
    """A request ended without an answer; `forwarded_tokens` is the work done for it until then."""

    event: Literal["error"] = "error"
    error_type: Text | None = None
    message: Text | None = None
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
        | ErrorEvent,
        Field(discriminator="event"),
    ]
)


def parse_event(data: Mapping[str, Any], *, is_json: bool = False) -> Event:
    """The typed event, or an OtherEvent where the data fit no known type.

    `is_json`: the data were read from strict JSON, so that nothing in them has to be made plain. Raises
    pydantic.ValidationError where even `event` or `timestamp_s` is missing or malformed.
    """
    context = _FROM_JSON if is_json else None
    try:
        return _KNOWN.validate_python(data, context=context)
    except ValidationError:
        return OtherEvent.model_validate(data, context=context)


def dump_event(event: Event) -> str:
    """The event as one line of JSON, without the newline; fields that were not given are left out."""
    data = {**event.model_dump(exclude_unset=True), "event": event.event}
    return json.dumps(plain_json(data), allow_nan=False, separators=(",", ":"))
