"""What the page is given: a story as plain JSON, short names and positions as rows to keep it small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..comparing import Pair
from ..events import PositionRecord
from ..metrics import ROLES, Metrics
from ..story import Call, Story, remarks
from .messages import checked_messages

__all__ = ["POSITION_FIELDS", "comparison_data", "story_data"]

_BEST_FIELDS = ("best_t", "best_a", "best_b")
_PLAIN_FIELDS = (
    "text",
    "origin",
    "is_argmax",
    "emitted_p_t",
    "p_t",
    "p_a",
    "p_b",
    "divergence",
    "gamma_eff",
    "token",
    "token_id",
    "draft",
    "argmax",
)
POSITION_FIELDS = _PLAIN_FIELDS + _BEST_FIELDS
"""The columns of a call's positions."""


def story_data(story: Story) -> dict[str, Any]:
    """The story for the page; its texts stand once, by digest."""
    return {
        "title": story.title,
        "notes": list(story.notes),
        "total": _counts(story.total),
        "texts": story.texts,
        "runs": [
            {"arm": run.arm, "task": run.task, "calls": [call.number for call in run.calls]}
            for run in story.runs
        ],
        "calls": [_call(call) for call in story.calls],
        "fields": list(POSITION_FIELDS),
    }


def comparison_data(left: Story, right: Story, pairs: Sequence[Pair]) -> dict[str, Any]:
    """Two stories for the page, and which of their calls belong together, by number."""
    return {
        "left": story_data(left),
        "right": story_data(right),
        "pairs": [
            {
                "left": pair.left.number if pair.left is not None else None,
                "right": pair.right.number if pair.right is not None else None,
                "is_same": pair.is_same,
                "common_chars": pair.common_chars,
                "common_tokens": pair.common_tokens,
            }
            for pair in pairs
        ],
    }


def _call(call: Call) -> dict[str, Any]:
    request, view = call.request, call.view
    data: dict[str, Any] = {
        "number": call.number,
        "id": call.request_id,
        "arm": call.arm,
        "mode": request.mode if request is not None else None,
        "fallback": request.fallback if request is not None else None,
        "ending": call.ending,
        "error": call.error.message if call.error is not None else None,
        "full_tokens": call.full_tokens,
        "compressed_tokens": call.compressed_tokens,
        "stages": call.latency.known(),
        "counts": _counts(call.metrics),
        "answer": call.answer,
        "positions": [_row(position) for position in call.positions()],
        "has_detail": any(block.positions is not None for block in call.blocks),
        "remarks": remarks(call),
        "messages": checked_messages(view.messages or ()) if view is not None else [],
    }
    if request is not None:
        data["read"] = {
            role: [getattr(request.prompt_tokens, role), getattr(request.cached_tokens, role)]
            for role in ROLES
        }
        data["options"] = {
            name: _number_or_text(getattr(request, name))
            for name in ("gate", "delta", "beta", "gamma", "num_draft_tokens", "bonus")
        }
    return data


def _row(position: PositionRecord) -> list[Any]:
    row = [_number_or_text(getattr(position, name, None)) for name in _PLAIN_FIELDS]
    row += [[_choice(choice) for choice in getattr(position, name)] for name in _BEST_FIELDS]
    while row and (row[-1] is None or row[-1] == []):
        row.pop()
    return row


def _number_or_text(value: Any) -> Any:
    return value if not isinstance(value, float) or math.isfinite(value) else None


def _choice(choice: tuple[Any, ...]) -> list[Any]:
    """[probability, id, text], as far as they are that."""
    kinds: tuple[Any, ...] = (int | float, int, str)
    return [
        _number_or_text(value) if isinstance(value, kind) else None
        for value, kind in zip(choice, kinds, strict=False)
    ] or [None]


def _counts(metrics: Metrics) -> dict[str, Any]:
    summary = metrics.summary()
    names = (
        "num_requests",
        "num_errors",
        "num_fallbacks",
        "num_degraded",
        "num_blocks",
        "num_drafted",
        "num_accepted",
        "num_fused",
        "num_bonus",
        "num_response_tokens",
        "acceptance_rate",
        "mean_accepted_length",
        "mean_divergence",
        "elapsed_s",
        "drafted_per_position",
        "accepted_per_position",
        "prompt_tokens",
        "cached_tokens",
        "full_tokens",
        "compressed_tokens",
    )
    return {name: summary[name] for name in names}
