"""`asymspec compress` of a conversation: the whole view routed, and what became of each message."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from typing import Any

from ..compress.base import Compressor
from ..messages import Message
from ..router import ContextRouter, PartChange, RoutedContext
from ..tokens import TokenCounter
from ..views import ViewPolicy
from ..views.fitting import PromptCounter
from ..views.turns import message_texts
from .compress_diff import diff, printable, rendered
from .compress_input import Conversation
from .table import print_table

__all__ = ["show_conversation"]


def show_conversation(
    conversation: Conversation,
    policy: ViewPolicy,
    *,
    compressor: Compressor,
    counter: TokenCounter,
    prompt_counter: PromptCounter | None,
    as_json: bool,
    as_diff: bool,
    colour: bool,
) -> int:
    """Prints the compressed view's texts or their difference, and on standard error a line for each message.

    Raises MessageError for a malformed conversation, ContextOverflowError where a limit cannot be met.
    """
    router = ContextRouter(policy, compressor=compressor, counter=counter, prompt_counter=prompt_counter)
    routed = router.route(conversation.messages, conversation.tools)
    rows = _rows(routed, counter)
    if as_json:
        print(json.dumps(_as_json(routed, rows, counter, as_diff), indent=2))
        return 0
    for index, (full, short) in enumerate(zip(routed.full, routed.compressed, strict=True)):
        print(f"--- {index} {printable(full.role)} ---")
        for (_, before), (_, after) in zip(message_texts(full), message_texts(short), strict=True):
            print(rendered(diff(before, after), colour=colour) if as_diff else after)
    print_table(
        ("message", "part", "role", "tier", "before", "after", "by"),
        [tuple("" if cell is None else str(cell) for cell in row.values()) for row in rows],
        stream=sys.stderr,
    )
    report = routed.report
    print(f"{report.lines()[0]}, counted by {counter.name}", file=sys.stderr)
    return 0


def _rows(routed: RoutedContext, counter: TokenCounter) -> list[dict[str, Any]]:
    """One row for each text: its tier, and its tokens before and after."""
    changes = {(change.message, change.part): change for change in routed.report.changes}
    rows: list[dict[str, Any]] = []
    for index, message in enumerate(routed.full):
        for part, text in message_texts(message):
            rows.append(_row(index, part, message, changes.get((index, part)), counter.count(text)))
    return rows


def _row(
    index: int, part: int | None, message: Message, change: PartChange | None, num_tokens: int
) -> dict[str, Any]:
    return {
        "message": index,
        "part": part,
        "role": message.role,
        "tier": change.tier.name.lower() if change is not None else "verbatim",
        "tokens_before": change.original_tokens if change is not None else num_tokens,
        "tokens_after": change.tokens if change is not None else num_tokens,
        "compressor": (change.compressor + (" (degraded)" if change.degraded else "")) if change else None,
    }


def _as_json(
    routed: RoutedContext, rows: Sequence[dict[str, Any]], counter: TokenCounter, as_diff: bool
) -> dict[str, Any]:
    report = routed.report
    result: dict[str, Any] = {
        "counter": counter.name,
        "tokens_before": report.full_tokens,
        "tokens_after": report.compressed_tokens,
        "is_exact": report.is_exact,
        "num_degraded": report.num_degraded,
        "parts": list(rows),
        "messages": [message.wire() for message in routed.compressed],
        "tools": [tool.wire() for tool in routed.compressed_tools],
    }
    if as_diff:
        result["diff"] = [
            {
                "message": edit.message,
                "part": edit.part,
                "pieces": [
                    [piece.fate, piece.text]
                    for piece in diff(dict(message_texts(routed.full[edit.message]))[edit.part], edit.text)
                ],
            }
            for edit in routed.edits
        ]
    return result
