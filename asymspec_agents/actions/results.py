"""What goes back to the model: results of its actions, and what was wrong with an answer.

Both are user messages, as models without tool calls know no other, and begin as routers expect of results
(`ViewPolicy.observation_markers`), so that they are compressed like any tool's output.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..errors import ConfigurationError

__all__ = ["error_message", "result_message"]

RESULT = "Observation:"
ERROR = "Error:"


def result_message(outputs: Sequence[Any]) -> dict[str, Any]:
    """The outputs of a step's actions, in their order, as one message.

    Several are a text part each, so that each is compressed by itself. Texts stay as they are, other values
    become JSON. Raises ConfigurationError for no outputs.
    """
    if isinstance(outputs, str | bytes) or not outputs:
        raise ConfigurationError("outputs must be a list with one output for each action")
    texts = [f"{RESULT}\n{_text(output)}" for output in outputs]
    if len(texts) == 1:
        return {"role": "user", "content": texts[0]}
    return {"role": "user", "content": [{"type": "text", "text": text} for text in texts]}


def error_message(problem: str) -> dict[str, Any]:
    """The message that quotes an error and asks for another answer."""
    return {"role": "user", "content": f"{ERROR}\n{problem}\nWrite the action again, corrected."}


def _text(output: Any) -> str:
    if isinstance(output, str):
        return output
    return json.dumps(output, ensure_ascii=False, default=str)
