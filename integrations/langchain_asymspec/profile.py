"""What LangChain may know of a model beforehand: its `profile`."""

from __future__ import annotations

from asymspec_agents.backends import Capabilities

from ._compat import ModelProfile

__all__ = ["profile_of"]


def profile_of(capabilities: Capabilities | None, max_tokens: int | None) -> ModelProfile:
    """What every AsymSpec backend can do, and the limits of this one where they are known.

    `max_input_tokens` is the longest full view: what middleware measures is the conversation, and the router
    keeps the compressed view within the verifier's limit. `structured_output` is left out although it works:
    agents would ask for it and for tools in one request, and then some servers never call a tool.
    """
    profile = ModelProfile(
        text_inputs=True,
        text_outputs=True,
        tool_calling=True,
        tool_choice=True,
        tool_call_streaming=True,
    )
    if max_tokens is not None:
        profile["max_output_tokens"] = max_tokens
    if capabilities is not None:
        profile["name"] = capabilities.verifier
        has_drafter = capabilities.drafter is not None
        limit = capabilities.max_drafter_tokens if has_drafter else capabilities.max_verifier_tokens
        if limit is not None:
            profile["max_input_tokens"] = limit
    return profile
