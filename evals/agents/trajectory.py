"""What an agent did, as plain JSON: its thoughts, its calls, how much came back, and what went wrong."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from smolagents import ActionStep

__all__ = ["answer_text", "steps_of"]

MAX_TEXT_CHARS = 2_000  # of a thought or an error
MAX_SHOWN_CHARS = 300  # of a result


def steps_of(memory_steps: Sequence[Any]) -> tuple[dict[str, Any], ...]:
    """One entry a step: `step`, `thought`, `calls`, `result_chars`, `result` (its beginning), `error`."""
    return tuple(_step(step) for step in memory_steps if isinstance(step, ActionStep))


def _step(step: ActionStep) -> dict[str, Any]:
    observed = step.observations or ""
    entry: dict[str, Any] = {
        "step": step.step_number,
        "thought": _text(step.model_output)[:MAX_TEXT_CHARS],
        "calls": _calls(step),
        "result_chars": len(observed),
        "result": observed[:MAX_SHOWN_CHARS],
        "error": None,
    }
    if step.error is not None:
        entry["error"] = {
            "type": type(step.error).__name__,
            "message": str(step.error.message)[:MAX_TEXT_CHARS],
        }
    return entry


def _calls(step: ActionStep) -> list[dict[str, Any]]:
    """The calls of the model's answer; those of the step are there only where all of them went well."""
    if step.code_action is not None:
        return [{"name": "python", "arguments": step.code_action}]
    made = getattr(step.model_output_message, "tool_calls", None)
    if made:
        return [{"name": call.function.name, "arguments": _plain(call.function.arguments)} for call in made]
    return [{"name": call.name, "arguments": _plain(call.arguments)} for call in step.tool_calls or ()]


def _plain(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, ensure_ascii=True))
    except (TypeError, ValueError, RecursionError):
        return str(value)


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if isinstance(part.get("text"), str))
    return content if isinstance(content, str) else ""


def answer_text(answer: Any) -> str:
    """A final answer as the text that is scored: lists as their elements with commas, None as nothing."""
    if answer is None:
        return ""
    if isinstance(answer, str):
        return str(answer).strip()
    if isinstance(answer, dict) and len(answer) == 1:
        return answer_text(next(iter(answer.values())))  # {"answer": …}, as models like to write it
    if isinstance(answer, list | tuple | set | frozenset):
        if all(isinstance(part, dict) and "text" in part for part in answer) and answer:
            return _text(list(answer)).strip()  # the content of a message
        parts = [answer_text(part) for part in answer]
        return ", ".join(sorted(parts) if isinstance(answer, set | frozenset) else parts)
    return str(answer).strip()
