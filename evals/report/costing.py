"""What one record cost, in FLOPs of the cost model (2·params·tokens) and in seconds.

Prefill is what a prompt needed beyond its cached part; decoding is what was computed beyond that. The verifier
reads one view; the drafter's base and full passes both count with the drafter's parameters.
"""

from __future__ import annotations

from dataclasses import dataclass

from asymspec_agents.trace.events import RoleTokens

from ..records import Call, Record

__all__ = ["Params", "RecordCosts", "record_costs"]


@dataclass(frozen=True, slots=True)
class Params:
    """Parameters of the two models."""

    verifier: int
    drafter: int


@dataclass(frozen=True, slots=True)
class RecordCosts:
    """A record's sums over its calls; None where a part is unknown. `time_to_first_token_s` is a call's mean."""

    prefill_flops: float | None
    total_flops: float | None
    elapsed_s: float
    time_to_first_token_s: float | None
    compress_s: float


def record_costs(record: Record, params: Params | None) -> RecordCosts | None:
    """The costs of a record; None where there is no output."""
    if record.output is None:
        return None
    calls = record.output.calls
    firsts = [call.time_to_first_token_s for call in calls if call.time_to_first_token_s is not None]
    prefills = [_flops(_prefill(call), params) for call in calls] if params else []
    totals = [_flops(call.computed_tokens, params) for call in calls] if params else []
    extra = sum(call.extra_flops for call in calls)
    return RecordCosts(
        prefill_flops=_total(prefills, extra),
        total_flops=_total(totals, extra),
        elapsed_s=record.output.elapsed_s,
        time_to_first_token_s=sum(firsts) / len(firsts) if firsts else None,
        compress_s=sum(call.compress_s for call in calls),
    )


def _prefill(call: Call) -> RoleTokens:
    prompt, cached = call.prompt_tokens, call.cached_tokens
    return RoleTokens(
        verifier=max(0, prompt.verifier - cached.verifier),
        base=max(0, prompt.base - cached.base),
        drafter=max(0, prompt.drafter - cached.drafter),
    )


def _flops(tokens: RoleTokens | None, params: Params | None) -> float | None:
    if tokens is None or params is None:
        return None
    return 2.0 * (params.verifier * tokens.verifier + params.drafter * (tokens.base + tokens.drafter))


def _total(parts: list[float | None], extra: float) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) + extra if known and len(known) == len(parts) else None
