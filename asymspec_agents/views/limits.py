"""A policy within what a backend can read, with room for the answer."""

from __future__ import annotations

from dataclasses import replace

from .policy import ViewPolicy

__all__ = ["ANSWER_TOKENS", "within_limits"]

ANSWER_TOKENS = 1_024  # room kept for an answer whose length is not limited
PROMPT_SLACK_TOKENS = 64  # merging messages of one role may change a template's count by a few


def within_limits(
    policy: ViewPolicy,
    max_verifier_tokens: int | None,
    max_drafter_tokens: int | None,
    max_answer_tokens: int | None,
) -> ViewPolicy:
    """The policy with budgets that keep both views, with their answer, within a backend's limits.

    A limit of None is none; a smaller budget of the policy's own stays.
    """
    room = (max_answer_tokens or ANSWER_TOKENS) + PROMPT_SLACK_TOKENS

    def budget(own: int | None, limit: int | None) -> int | None:
        if limit is None:
            return own
        left = max(1, limit - room)
        return left if own is None else min(own, left)

    return replace(
        policy,
        max_verifier_tokens=budget(policy.max_verifier_tokens, max_verifier_tokens),
        max_drafter_tokens=budget(policy.max_drafter_tokens, max_drafter_tokens),
    )
