"""The record of one call: from the engine's events where there are any, else from the server's report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from asymspec_agents.backends import ChatResponse, Segment, Usage
from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.trace import Event, RequestEvent, ResponseEvent, RoleTokens, measure

from .answering import Answering
from .records import Call

__all__ = ["Heard", "call_of"]


@dataclass(frozen=True, slots=True)
class Heard:
    """What came back of a call. Without `usage` it is not whole, and `finish_reason` says why not."""

    text: str
    segments: tuple[Segment, ...]
    finish_reason: str
    usage: Usage | None
    report: AsymSpecReport | None
    elapsed_s: float
    first_s: float | None

    @classmethod
    def of(cls, response: ChatResponse, elapsed_s: float, first_s: float | None) -> Heard:
        """A whole answer."""
        return cls(
            response.raw_text or response.content,
            response.segments,
            response.finish_reason,
            response.usage,
            response.report,
            elapsed_s,
            first_s,
        )


def call_of(heard: Heard, events: Sequence[Event], answering: Answering) -> Call:
    """The record, but for the views' sizes and what making them took, which the asker knows."""
    shared: dict[str, Any] = {
        "mode": answering.mode,
        "finish_reason": heard.finish_reason,
        "elapsed_s": heard.elapsed_s,
        "time_to_first_token_s": heard.first_s,
        "text": heard.text,
        "segments": _joined(heard.segments),
        "completion_tokens": heard.usage.completion_tokens if heard.usage is not None else 0,
    }
    told = _from_report(heard) if answering.events is None else _from_events(events)
    call = Call(**{**shared, **{name: value for name, value in told.items() if value is not None}})
    return call if answering.only_model is None else _read_by(call, answering.only_model)


def _from_events(events: Sequence[Event]) -> dict[str, Any]:
    total = measure(events)
    told: dict[str, Any] = {
        "prompt_tokens": _plain(total.prompt_tokens),
        "cached_tokens": _plain(total.cached_tokens),
        "computed_tokens": _plain(total.forwarded_tokens),
        "num_blocks": total.num_blocks,
        "num_drafted": total.num_drafted,
        "num_accepted": total.num_accepted,
        "num_fused": total.num_fused,
        "num_bonus": total.num_bonus,
        "drafted_per_position": total.drafted_per_position,
        "accepted_per_position": _padded(total.accepted_per_position, len(total.drafted_per_position)),
        "num_judged": total.num_judged,
        "divergence_sum": float(total.divergence_sum),
    }
    for event in events:
        if isinstance(event, RequestEvent):
            told |= {"mode": event.mode, "fallback": event.fallback}
        elif isinstance(event, ResponseEvent):
            told["time_to_first_token_s"] = event.time_to_first_token_s
    if not any(isinstance(event, ResponseEvent) for event in events):
        told["completion_tokens"] = total.num_emitted  # of an answer that its caller left, say
    return told


def _from_report(heard: Heard) -> dict[str, Any]:
    """What a server tells; how many positions its models computed it does not say.

    Every place that a gate judged emitted a token, accepted or fused: so many are in the mean divergence.
    """
    usage, report = heard.usage, heard.report
    if usage is None:
        return {}
    if report is None or not report.drafted:
        told: dict[str, Any] = {
            "prompt_tokens": RoleTokens(verifier=usage.prompt_tokens),
            "cached_tokens": RoleTokens(verifier=usage.cached_tokens),
        }
        return told if report is None else told | {"fallback": report.fallback}
    rates = report.accepted_per_position
    is_strict = report.mode == "strict"
    num_judged = 0 if is_strict else report.accepted + report.fused
    return {
        "prompt_tokens": RoleTokens(
            verifier=report.verifier_prompt_tokens,
            base=0 if is_strict else report.verifier_prompt_tokens,
            drafter=report.drafter_prompt_tokens,
        ),
        "cached_tokens": RoleTokens(
            verifier=report.cached_tokens.verifier,
            base=report.cached_tokens.base,
            drafter=report.cached_tokens.drafter,
        ),
        "mode": report.mode,
        "fallback": report.fallback,
        "num_blocks": report.blocks,
        "num_drafted": report.drafted,
        "num_accepted": report.accepted,
        "num_fused": report.fused,
        "num_bonus": report.bonus,
        "drafted_per_position": (report.blocks,) * len(rates),
        "accepted_per_position": rates,
        "num_judged": num_judged,
        "divergence_sum": report.mean_divergence * num_judged,
    }


def _plain(tokens: RoleTokens) -> RoleTokens:
    return RoleTokens(verifier=tokens.verifier, base=tokens.base, drafter=tokens.drafter)


def _padded(counts: tuple[int, ...], length: int) -> tuple[int, ...]:
    return counts + (0,) * (length - len(counts))


def _joined(segments: Sequence[Segment]) -> tuple[tuple[str, str], ...]:
    """Neighbours of one origin as one piece."""
    groups = groupby(segments, key=lambda segment: segment.origin)
    return tuple(("".join(piece.text for piece in pieces), origin) for origin, pieces in groups)


def _read_by(call: Call, model: str) -> Call:
    """A plain call of another model than the verifier: its tokens are that model's."""
    moved = {
        name: RoleTokens(**{model: value.verifier})
        for name in ("prompt_tokens", "cached_tokens", "computed_tokens")
        if (value := getattr(call, name)) is not None
    }
    return call.model_copy(update=moved)
