"""Where one tool's output ends and the next begins, when smolagents joins the outputs of parallel calls.

smolagents writes all outputs of a step into one text, so neither a model nor a router can tell them apart.
`join_outputs` writes them with a heading each; `split_outputs` finds them again, from the text alone.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

__all__ = ["OBSERVATION", "join_outputs", "split_outputs"]

OBSERVATION = "Observation:"
# Begins like what smolagents writes above a call's error, which routers take for an observation, and ends
# like a label, which compressors keep above the content.
_HEADING = re.compile(r"^Call id: \S.*, tool: \w+:$", re.MULTILINE)


def join_outputs(outputs: Sequence[Any]) -> str | None:
    """The observation text of several ToolOutputs, each under its call's heading; None for fewer than two."""
    if len(outputs) < 2:
        return None
    return "\n".join(
        f"Call id: {output.id}, tool: {output.tool_call.name}:\n{output.observation}" for output in outputs
    )


def split_outputs(text: str) -> tuple[str, ...]:
    """The pieces of an observation text with headings (the whole text, where it has fewer than two).

    Invariant: `"\\n".join(split_outputs(text)) == text`.
    """
    if not text.startswith(OBSERVATION) or "\nCall id: " not in text:
        return (text,)
    starts = [match.start() for match in _HEADING.finditer(text) if match.start() > 0]
    if len(starts) < 2:
        return (text,)
    bounds = [0, *starts, len(text) + 1]
    return tuple(text[start : end - 1] for start, end in pairwise(bounds))
