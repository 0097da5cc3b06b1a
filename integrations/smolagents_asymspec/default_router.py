"""The router of a model that was given none: it keeps both views within what the backend can read."""

from __future__ import annotations

from asymspec_agents.backends import Backend
from asymspec_agents.recording import Recorder
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy

__all__ = ["router_for"]

ANSWER_TOKENS = 1_024  # room kept for an answer whose length is not limited
PROMPT_SLACK_TOKENS = 64  # merging messages of one role may change a template's count by a few


def router_for(backend: Backend, max_tokens: int | None, recorder: Recorder) -> ContextRouter:
    """A router with the backend's own limits and token counter; `max_tokens` limits its answers."""
    capabilities = backend.capabilities
    limits = (capabilities.max_verifier_tokens, capabilities.max_drafter_tokens)
    room = (max_tokens or ANSWER_TOKENS) + PROMPT_SLACK_TOKENS
    verifier, drafter = (None if limit is None else max(1, limit - room) for limit in limits)
    return ContextRouter(
        ViewPolicy(max_verifier_tokens=verifier, max_drafter_tokens=drafter),
        prompt_counter=backend.prompt_counter,
        recorder=recorder,
    )
