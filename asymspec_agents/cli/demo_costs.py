"""What one call of the demo cost: how much each model read, and how many positions it computed."""

from __future__ import annotations

from dataclasses import dataclass

from ..backends import Usage
from ..protocol import AsymSpecReport
from ..trace import ResponseEvent

__all__ = ["CallCost", "recorded_cost", "reported_cost"]


@dataclass(frozen=True, slots=True)
class CallCost:
    """Tokens of one call: prompts as each model read them, and positions it ran (prompt, drafts, answer)."""

    verifier_read: int
    verifier_ran: int
    drafter_read: int
    drafter_ran: int


def recorded_cost(arm: str, usage: Usage, report: AsymSpecReport, response: ResponseEvent) -> CallCost:
    """The cost as the engine counted it while it ran."""
    ran = response.forwarded_tokens
    if arm == "drafter":
        return CallCost(0, 0, usage.prompt_tokens, ran.verifier)
    return CallCost(usage.prompt_tokens, ran.verifier, report.drafter_prompt_tokens, ran.drafter + ran.base)


def reported_cost(arm: str, usage: Usage, report: AsymSpecReport) -> CallCost:
    """The cost as it follows from a server's answer: what was read and not cached, and what was decoded.

    Every decoded position but the first is computed once, whether its token was kept or not; the first is the
    prompt's last. The drafter's base pass reads the compressed view, unless both views were the same.
    """
    uncached = usage.prompt_tokens - usage.cached_tokens
    if not report.drafter_prompt_tokens:
        ran = uncached + max(0, usage.completion_tokens - 1)
        if arm == "drafter":
            return CallCost(0, 0, usage.prompt_tokens, ran)
        return CallCost(usage.prompt_tokens, ran, 0, 0)
    decoded = max(0, report.drafted - 1)
    drafter_ran = report.drafter_prompt_tokens - report.cached_tokens.drafter + decoded
    if report.mode != "strict":
        drafter_ran += report.verifier_prompt_tokens - report.cached_tokens.base + decoded
    return CallCost(usage.prompt_tokens, uncached + decoded, report.drafter_prompt_tokens, drafter_ran)
