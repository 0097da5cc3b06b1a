"""Routers that make a view's renditions in an agent's run, and tell what that took."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from asymspec_agents.attachments import AttachmentPolicy, Attachments, ReadMessages
from asymspec_agents.backends import PromptCounter
from asymspec_agents.compress.base import Compressor
from asymspec_agents.messages import ToolSpec
from asymspec_agents.router import ContextRouter
from asymspec_agents.tokens import TokenCounter
from asymspec_agents.views import ViewPolicy
from asymspec_agents.views.limits import within_limits
from asymspec_agents.views.rate import RateState
from asymspec_agents.views.routed import RoutedContext
from asymspec_agents.views.tool_view import ToolDoc

from ..cells import ViewSpec
from .meter import Effort, Meter

__all__ = ["RouterLimits", "measured_router", "policy_of", "untouched"]

NEVER = 2**31
ANY_SHARE = 0.99  # where a view's size is a number of tokens, which then is what limits a rendition


@dataclass(frozen=True, slots=True)
class RouterLimits:
    """The longest prompts and answers, None where unknown, and an exact count of prompts if there is one."""

    max_verifier_tokens: int | None = None
    max_drafter_tokens: int | None = None
    prompt_counter: PromptCounter | None = None
    max_answer_tokens: int | None = None


class _MeasuredRouter(ContextRouter):
    """A router that adds the time of each call to a meter."""

    meter: Meter

    def route_read(
        self,
        read: ReadMessages,
        tools: Sequence[ToolSpec | Mapping[str, Any]] | None = None,
        *,
        tool_docs: Sequence[ToolDoc] = (),
        rate: RateState | None = None,
        task: str | None = None,
    ) -> RoutedContext:
        started_s = time.monotonic()
        try:
            return super().route_read(read, tools, tool_docs=tool_docs, rate=rate, task=task)
        finally:
            self.meter.add(Effort(time.monotonic() - started_s))


def measured_router(
    policy: ViewPolicy,
    compressor: Compressor | None,
    counter: TokenCounter,
    limits: RouterLimits,
    meter: Meter,
    *,
    keeps_images: bool = False,
) -> ContextRouter:
    """A router by this policy within the limits; `compressor` None is the router's own.

    With `keeps_images` the full view has a conversation's images, else text in their place, as the compressed
    view has in any case.
    """
    policy = within_limits(
        policy,
        limits.max_verifier_tokens,
        limits.max_drafter_tokens,
        limits.max_answer_tokens,
    )
    router = _MeasuredRouter(
        policy,
        counter=counter,
        compressor=compressor,
        prompt_counter=limits.prompt_counter,
        attachments=Attachments(AttachmentPolicy(drafter_sees="images" if keeps_images else "text")),
    )
    router.meter = meter
    return router


def untouched(*, tool_signatures: bool) -> ViewPolicy:
    """A policy by which every text stays as it is, as long as a model can read it."""
    return ViewPolicy(
        keep_last=NEVER,
        first_sight_tokens=NEVER,
        min_part_tokens=NEVER,
        tool_signatures=tool_signatures,
    )


def policy_of(spec: ViewSpec) -> ViewPolicy:
    """The policy that follows from a view alone: a size up to 1 is the ratio, else the most tokens kept."""
    if spec.method in ("none", "signature") or (spec.size == 1 and spec.method != "router"):
        return untouched(tool_signatures=spec.method != "none")
    policy = ViewPolicy(compress_timeout_s=None)  # a slow compressor is measured, not replaced
    if spec.size is None:
        return policy
    if spec.method == "router":
        return replace(policy, ratio=spec.size)
    if spec.size < 1:
        return replace(policy, ratio=spec.size, max_rendition_tokens=NEVER)
    return replace(policy, ratio=ANY_SHARE, max_rendition_tokens=round(spec.size))
