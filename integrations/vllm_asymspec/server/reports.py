"""The report of an AsymSpec request, and where it stands in vLLM's answers."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from asymspec_agents.protocol import AsymSpecReport, CachedTokens

from ..heard import Heard
from .serving import Settled

__all__ = ["report_of", "with_report", "with_reports"]

_PREFIX = "data: "


def report_of(settled: Settled, heard: Heard) -> AsymSpecReport:
    """What decoding did, by what the engine said of it and what the server changed about the request."""
    asked = settled.asked
    fallbacks = list(asked.fallbacks)
    if asked.is_plain:
        return AsymSpecReport(
            mode="floor",
            fallback=", ".join(fallbacks) or None,
            verifier_prompt_tokens=heard.num_prompt_tokens,
            cached_tokens=CachedTokens(verifier=heard.num_cached_tokens),
        )
    mode = asked.options.mode_name
    if settled.is_strict:
        mode = "strict"
        fallbacks.append("identical_views")
    cached = CachedTokens.model_validate(heard.counts.get("cached_tokens", {}))
    ours = {
        "mode": mode,
        "fallback": ", ".join(fallbacks) or None,
        "verifier_prompt_tokens": heard.num_prompt_tokens,
        "drafter_prompt_tokens": settled.num_full_tokens,
        "images": len(settled.images),
        "cached_tokens": cached.model_copy(update={"verifier": heard.num_cached_tokens}),
    }
    known = {name: heard.counts[name] for name in AsymSpecReport.model_fields if name in heard.counts}
    return AsymSpecReport.model_validate({**known, **ours})


def with_report(answer: dict[str, Any], report: AsymSpecReport) -> dict[str, Any]:
    """The answer or chunk with its report."""
    return {**answer, "asymspec": report.model_dump(mode="json")}


async def with_reports(
    events: AsyncGenerator[str, None], settled: Settled, heard: Heard
) -> AsyncGenerator[str, None]:
    """vLLM's events, with the report on the chunk that has the finish reason."""
    async with aclosing(events) as stream:
        async for event in stream:
            yield _reported(event, settled, heard) if heard.is_finished else event


def _reported(event: str, settled: Settled, heard: Heard) -> str:
    if not event.startswith(_PREFIX + "{"):
        return event
    chunk = json.loads(event.removeprefix(_PREFIX))
    choices = chunk.get("choices") or [{}]
    if choices[0].get("finish_reason") is None:
        return event
    chunk = with_report(chunk, report_of(settled, heard))
    return f"{_PREFIX}{json.dumps(chunk, ensure_ascii=False, separators=(',', ':'))}\n\n"
