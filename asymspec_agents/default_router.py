"""The router of a model that was given none: it keeps both views within what the backend can read."""

from __future__ import annotations

from dataclasses import replace

from .attachments import AttachmentPolicy, Attachments
from .backends.base import Backend, Capabilities
from .recording import Recorder
from .router import ContextRouter
from .views import ViewPolicy
from .views.limits import within_limits

__all__ = ["attachment_policy", "attachments_for", "router_for"]


def attachment_policy(capabilities: Capabilities | None) -> AttachmentPolicy:
    """How attachments are read for such a backend: a drafter that sees is shown images, within its limits."""
    if capabilities is None or not capabilities.sees_images:
        return AttachmentPolicy()
    limits = AttachmentPolicy(drafter_sees="images")
    return replace(
        limits,
        max_seen_images=capabilities.max_images or limits.max_seen_images,
        max_seen_pixels=capabilities.max_image_pixels or limits.max_seen_pixels,
    )


def attachments_for(capabilities: Capabilities) -> Attachments:
    """What reads attachments for such a backend."""
    return Attachments(attachment_policy(capabilities))


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
