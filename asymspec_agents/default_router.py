"""The router of a model that was given none: it keeps both views within what the backend can read."""

from __future__ import annotations

from .attachments import AttachmentPolicy, Attachments
from .backends.base import Backend, Capabilities
from .recording import Recorder
from .router import ContextRouter
from .views import ViewPolicy
from .views.limits import within_limits

__all__ = ["attachments_for", "router_for"]


def attachments_for(capabilities: Capabilities) -> Attachments:
    """What reads attachments for such a backend: its drafter is shown images if it sees."""
    return Attachments(AttachmentPolicy(drafter_sees="images" if capabilities.sees_images else "text"))


def router_for(backend: Backend, max_tokens: int | None, recorder: Recorder) -> ContextRouter:
    """A router with the backend's own limits and token counter; `max_tokens` limits its answers.

    A drafter that sees is shown the images.
    """
    can = backend.capabilities
    return ContextRouter(
        within_limits(ViewPolicy(), can.max_verifier_tokens, can.max_drafter_tokens, max_tokens),
        prompt_counter=backend.prompt_counter,
        attachments=attachments_for(can),
        recorder=recorder,
    )
