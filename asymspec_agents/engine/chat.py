"""Chat messages to token ids, through a tokenizer's own chat template."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from ..errors import ConfigurationError, MessageError
from ..messages import ContentPart, Message, ToolSpec
from ..tokens import clean_text

__all__ = ["ChatTemplate"]

# What the tokenizer takes itself; anything else is a variable of the template.
_OURS = {"conversation", "messages", "tools", "add_generation_prompt", "continue_final_message", "tokenize"}


class ChatTemplate:
    """Renders one view, tools and generation prompt included. Both views go through the same template."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer

    def ids(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Token ids of the prompt. Raises MessageError for what the template refuses.

        `template_kwargs` are variables of the template, such as `enable_thinking`.
        """
        for name in template_kwargs or ():
            if name in _OURS:
                raise ConfigurationError(f"chat_template_kwargs: {name} is fixed; pass template variables")
        shaped = [_template_message(message) for message in messages]
        rendered = self._render(shaped, tools, template_kwargs)
        if isinstance(rendered, Exception) and any(message["content"] is None for message in shaped):
            # Some templates take a call without words only with an empty text.
            shaped = [{**message, "content": message["content"] or ""} for message in shaped]
            rendered = self._render(shaped, tools, template_kwargs)
        if isinstance(rendered, Exception):
            raise MessageError(f"the model's chat template refuses these messages: {rendered}") from rendered
        ids: list[int] = self.tokenizer.encode(clean_text(rendered), add_special_tokens=False)
        return ids

    def _render(
        self,
        shaped: list[dict[str, Any]],
        tools: Sequence[ToolSpec],
        template_kwargs: Mapping[str, Any] | None,
    ) -> str | Exception:
        """The prompt's text, or why the template refuses it."""
        try:
            text = self.tokenizer.apply_chat_template(
                shaped,
                tools=[_clean(tool.wire()) for tool in tools] or None,
                add_generation_prompt=True,
                tokenize=False,
                **(template_kwargs or {}),
            )
        except (TemplateError, TypeError, ValueError, LookupError, AttributeError, RecursionError) as error:
            return error
        return str(text)


def _template_message(message: Message) -> dict[str, Any]:
    """The message in the shape chat templates expect: string content, arguments as objects.

    Only beside tool calls may content be absent, as null, which some templates look for.
    """
    data: dict[str, Any] = _clean(message.wire())
    if isinstance(message.content, tuple):
        data["content"] = "\n".join(clean_text(_part_text(part)) for part in message.content)
    elif message.content is None:
        data["content"] = None if message.tool_calls else ""
    for call in data.get("tool_calls") or ():
        function = call.get("function") or {}
        if isinstance(function.get("arguments"), str):
            function["arguments"] = _object_or_text(function["arguments"])
    return data


def _part_text(part: ContentPart) -> str:
    """A part's text; what has none is named, for a model that reads only text."""
    return part.text if part.text is not None else f"[{part.type}]"


def _object_or_text(arguments: str) -> Any:
    """Templates serialise arguments themselves, so JSON text would be quoted twice."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _clean(value: Any) -> Any:
    """The same structure of plain lists and dicts, with lone surrogates replaced in every string."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(str(key)): _clean(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
