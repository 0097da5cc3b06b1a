"""The router of a model that was given none: it keeps both views within what the backend can read."""

from __future__ import annotations

from asymspec_agents.backends import Backend
from asymspec_agents.recording import Recorder
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy
from asymspec_agents.views.limits import within_limits

__all__ = ["router_for"]


def router_for(backend: Backend, max_tokens: int | None, recorder: Recorder) -> ContextRouter:
    """A router with the backend's own limits and token counter; `max_tokens` limits its answers."""
    capabilities = backend.capabilities
    limits = (capabilities.max_verifier_tokens, capabilities.max_drafter_tokens)
    return ContextRouter(
        within_limits(ViewPolicy(), *limits, max_tokens),
        prompt_counter=backend.prompt_counter,
        recorder=recorder,
    )
