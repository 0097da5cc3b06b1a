"""What a prompt has besides its message texts, estimated in tokens: template, tool calls, tools, images.

The constants are a little above what Qwen2.5's chat template takes, so that a view that meets its budget by
this estimate seldom has to be shortened again when a template counts it exactly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from ..messages import Message, ToolSpec

__all__ = ["PROMPT_TOKENS", "as_written", "message_overhead_tokens", "prompt_tokens", "tools_tokens"]

PROMPT_TOKENS = 12  # beginning of the prompt, generation prompt
MESSAGE_TOKENS = 6  # role and delimiters
RESULT_TOKENS = 8  # further delimiters of a tool's result
CALL_TOKENS = 14  # delimiters and keys of one tool call
TOOLS_TOKENS = 120  # the template's instructions on how to call tools
TOOL_TOKENS = 6  # delimiters of one tool
OPAQUE_PART_TOKENS = 1_000  # an image or file; its base64 is never counted as text


def prompt_tokens(messages: Sequence[Message], tools: Sequence[ToolSpec], count: Callable[[str], int]) -> int:
    """Tokens of a whole prompt; `count` counts a text."""
    texts = sum(count(text) for message in messages for text in message.texts())
    overhead = sum(message_overhead_tokens(message, count) for message in messages)
    return PROMPT_TOKENS + tools_tokens(tools, count) + overhead + texts


def message_overhead_tokens(message: Message, count: Callable[[str], int]) -> int:
    """Tokens of a message besides its text parts: template, names, tool calls, further text fields."""
    tokens = MESSAGE_TOKENS
    if message.name is not None:
        tokens += count(message.name)
    if message.tool_call_id is not None:
        tokens += RESULT_TOKENS + count(message.tool_call_id)
    for call in message.tool_calls or ():
        tokens += CALL_TOKENS
        if call.function is not None:
            tokens += count(call.function.name) + count(as_written(call.function.arguments))
    if isinstance(message.content, tuple):
        for part in message.content:
            if part.type != "text":
                tokens += OPAQUE_PART_TOKENS if part.text is None else count(part.text)
    for value in (message.model_extra or {}).values():
        if isinstance(value, str):  # such as reasoning, which some templates write into the prompt
            tokens += count(value)
    return tokens


def as_written(value: object) -> str:
    """A string as it is, anything else as the JSON a template writes into the prompt."""
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no strings, cycles, extreme depth
        return str(type(value))


def tools_tokens(tools: Sequence[ToolSpec], count: Callable[[str], int]) -> int:
    """Tokens of the tool list in the prompt, 0 without tools."""
    if not tools:
        return 0
    return TOOLS_TOKENS + sum(TOOL_TOKENS + count(as_written(tool.wire())) for tool in tools)
