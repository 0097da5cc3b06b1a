"""What a trace amounts to: counts of drafting and accepting, prompt tokens, their reuse, and time.

Invariant: everything is a sum over events, so `measure(a) + measure(b) == measure(a + b)` exactly (times and
divergences are summed as fractions); ratios are taken at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import zip_longest
from typing import Any

from .events import (
    BlockEvent,
    CompressEvent,
    ErrorEvent,
    Event,
    RequestEvent,
    ResponseEvent,
    RoleTokens,
    SummaryEvent,
    ViewEvent,
)

__all__ = ["ROLES", "Metrics", "RequestMetrics", "measure", "measure_requests", "ratio"]


ROLES = ("verifier", "base", "drafter")
"""Who reads a prompt: the verifier, and the drafter in its base and its full-view pass."""

_NOTHING = RoleTokens()


@dataclass(frozen=True, slots=True)
class Metrics:
    """Sums over events; add two of them to merge. Ratios without a denominator are None.

    `*_per_position[i]` counts the blocks that proposed, or accepted, an (i+1)-th token. `num_judged` is the
    number of positions in `divergence_sum` (nats). `num_response_tokens` are the tokens after trimming at
    EOS, stop string or limit, `num_emitted` those before it.
    """

    num_requests: int = 0
    num_responses: int = 0
    num_errors: int = 0
    num_fallbacks: int = 0
    num_views: int = 0
    num_degraded: int = 0
    full_tokens: int = 0
    compressed_tokens: int = 0
    num_summaries: int = 0
    summary_prompt_tokens: int = 0
    summary_completion_tokens: int = 0
    num_blocks: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_fused: int = 0
    num_bonus: int = 0
    drafted_per_position: tuple[int, ...] = ()
    accepted_per_position: tuple[int, ...] = ()
    num_judged: int = 0
    divergence_sum: Fraction = Fraction(0)
    num_response_tokens: int = 0
    elapsed_s: Fraction = Fraction(0)
    num_first_tokens: int = 0
    first_token_sum_s: Fraction = Fraction(0)
    prompt_tokens: RoleTokens = _NOTHING
    cached_tokens: RoleTokens = _NOTHING
    forwarded_tokens: RoleTokens = _NOTHING

    def __add__(self, other: Metrics) -> Metrics:
        if not isinstance(other, Metrics):
            return NotImplemented
        return Metrics(*(_add(getattr(self, name), getattr(other, name)) for name in _FIELDS))

    @property
    def num_emitted(self) -> int:
        """Tokens emitted before trimming: accepted + fused + bonus."""
        return self.num_accepted + self.num_fused + self.num_bonus

    @property
    def acceptance_rate(self) -> float | None:
        """Accepted over drafted, proposals behind a refusal included."""
        return ratio(self.num_accepted, self.num_drafted)

    @property
    def acceptance_per_position(self) -> tuple[float, ...]:
        """The acceptance rate of the first, second, … proposal of a block."""
        pairs = zip_longest(self.accepted_per_position, self.drafted_per_position, fillvalue=0)
        return tuple(ratio(accepted, drafted) or 0.0 for accepted, drafted in pairs)

    @property
    def mean_accepted_length(self) -> float | None:
        """Emitted tokens per block."""
        return ratio(self.num_emitted, self.num_blocks)

    @property
    def mean_divergence(self) -> float | None:
        """Mean JSD (nats) over the positions the gate judged."""
        return ratio(self.divergence_sum, self.num_judged)

    @property
    def computed_tokens(self) -> RoleTokens:
        """Prompt tokens that were not in a cache."""
        return RoleTokens.model_construct(  # a sum may be more than an event may say
            **{
                role: max(0, getattr(self.prompt_tokens, role) - getattr(self.cached_tokens, role))
                for role in ROLES
            }
        )

    @property
    def tokens_per_s(self) -> float | None:
        """Answer tokens over the time of the requests that were answered, prefill included."""
        return ratio(self.num_response_tokens, self.elapsed_s)

    @property
    def mean_time_to_first_token_s(self) -> float | None:
        """Mean seconds to the first token, over the answers that report it."""
        return ratio(self.first_token_sum_s, self.num_first_tokens)

    def summary(self) -> dict[str, Any]:
        """Every sum and every ratio, as plain JSON."""
        sums = {name: getattr(self, name) for name in _FIELDS}
        data: dict[str, Any] = {
            name: float(value) if isinstance(value, Fraction) else value for name, value in sums.items()
        }
        for name in ("prompt_tokens", "cached_tokens", "computed_tokens", "forwarded_tokens"):
            data[name] = getattr(self, name).model_dump(include=set(ROLES))
        for name in ("drafted_per_position", "accepted_per_position", "acceptance_per_position"):
            data[name] = list(getattr(self, name))
        for name in (
            "num_emitted",
            "acceptance_rate",
            "mean_accepted_length",
            "mean_divergence",
            "tokens_per_s",
            "mean_time_to_first_token_s",
        ):
            data[name] = getattr(self, name)
        return data


_FIELDS = tuple(field.name for field in fields(Metrics))


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, tuple):
        return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))
    return left + right


def ratio(part: int | Fraction, whole: int | Fraction) -> float | None:
    """part / whole, or None where there is no whole."""
    return float(part / whole) if whole else None


def _exact(numbers: Iterable[float]) -> list[Fraction]:
    return [Fraction(number) for number in numbers if math.isfinite(number)]


def measure(events: Iterable[Event]) -> Metrics:
    """The metrics of all events together."""
    total = Metrics()
    for event in events:
        total += _share(event)
    return total


def _share(event: Event) -> Metrics:
    """What one event adds."""
    match event:
        case BlockEvent():
            divergence = _exact(event.divergence)
            return Metrics(
                num_blocks=1,
                num_drafted=event.num_drafted,
                num_accepted=event.num_accepted,
                num_fused=event.num_fused,
                num_bonus=event.num_bonus,
                drafted_per_position=(1,) * event.num_drafted,
                accepted_per_position=(1,) * event.num_accepted,
                num_judged=len(divergence),
                divergence_sum=sum(divergence, Fraction(0)),
            )
        case RequestEvent():
            return Metrics(
                num_requests=1,
                num_fallbacks=int(event.fallback is not None),
                prompt_tokens=event.prompt_tokens,
                cached_tokens=event.cached_tokens,
            )
        case ResponseEvent():
            first = _exact([] if event.time_to_first_token_s is None else [event.time_to_first_token_s])
            return Metrics(
                num_responses=1,
                num_response_tokens=event.num_tokens,
                elapsed_s=sum(_exact([event.elapsed_s]), Fraction(0)),
                num_first_tokens=len(first),
                first_token_sum_s=sum(first, Fraction(0)),
                forwarded_tokens=event.forwarded_tokens,
            )
        case ViewEvent():
            return Metrics(
                num_views=1, full_tokens=event.full_tokens, compressed_tokens=event.compressed_tokens
            )
        case CompressEvent():
            return Metrics(num_degraded=1)
        case SummaryEvent():
            return Metrics(
                num_summaries=1,
                summary_prompt_tokens=event.prompt_tokens,
                summary_completion_tokens=event.completion_tokens,
            )
        case ErrorEvent():
            return Metrics(num_errors=1, forwarded_tokens=event.forwarded_tokens)
        case _:
            return Metrics()


@dataclass(frozen=True, slots=True)
class RequestMetrics:
    """One request of a trace: what ran, how it ended (None: the trace stops before), and its metrics."""

    request_id: str
    arm: str | None
    mode: str | None
    fallback: str | None
    ending: str | None
    metrics: Metrics


def measure_requests(events: Iterable[Event]) -> tuple[RequestMetrics, ...]:
    """The metrics of each request, in the order of their first events; events of no request are left out."""
    by_request: dict[str, list[Event]] = {}
    for event in events:
        if event.request_id is not None:
            by_request.setdefault(event.request_id, []).append(event)
    return tuple(_request(request_id, own) for request_id, own in by_request.items())


def _request(request_id: str, events: list[Event]) -> RequestMetrics:
    arm = mode = fallback = ending = None
    for event in events:
        if isinstance(event, RequestEvent):
            arm, mode, fallback = event.arm, event.mode, event.fallback
        elif isinstance(event, ResponseEvent):
            ending = event.finish_reason
        elif isinstance(event, ErrorEvent):
            ending = event.error_type or "error"
    return RequestMetrics(request_id, arm, mode, fallback, ending, measure(events))
