"""Chat messages to token ids, through a tokenizer's own chat template."""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from transformers import PreTrainedTokenizerBase

from ..errors import ConfigurationError, MessageError
from ..messages import ContentPart, FunctionSpec, Message, ToolSpec
from ..tokens import clean_text
from .answer import AnswerFormat
from .control_tokens import ControlTokens, Disguise

__all__ = ["ChatTemplate", "part_text", "template_message"]

TAIL_TOKENS = 64  # more than any generation prompt has behind the role
SHORT_ID_LENGTH = 9

# Names the tokenizer or the template engine takes for itself; anything else is a variable of the template.
_ENGINE_NAMES = {"self", "messages", "conversations"}


class ChatTemplate:
    """Renders one view, tools and generation prompt included. Both views go through the same template.

    Nothing in messages, tools or template variables becomes a special token: only the template writes those.
    `answer_format` is how the model of this template writes its answers. `template`: another one than the
    tokenizer's own. `control_names`: tokens that are kept out of texts like special ones.
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        template: str | None = None,
        control_names: Iterable[str] = (),
    ) -> None:
        self.tokenizer = tokenizer
        self._template = template
        self.answer_format = AnswerFormat.of(tokenizer)
        self._control = ControlTokens(tokenizer, control_names)
        parameters = inspect.signature(tokenizer.apply_chat_template).parameters.values()
        named = {p.name for p in parameters if p.kind is not inspect.Parameter.VAR_KEYWORD}
        self._fixed = frozenset(named | _ENGINE_NAMES)

    def ids(
        self,
        messages: Sequence[Message],
        tools: Sequence[ToolSpec] = (),
        template_kwargs: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Token ids of the prompt. Raises MessageError for what the template refuses.

        `template_kwargs` are variables of the template, such as `enable_thinking`; a name that is not one,
        because it would change how the prompt is made, raises ConfigurationError.
        """
        disguise = Disguise(self._control)
        variables = self._variables(template_kwargs or {}, disguise)
        refusal: Exception = MessageError("the messages cannot be read")
        try:
            offered: list[Any] = [_cleaned(tool.wire(), disguise) for tool in tools]
            for shaped in _shapes([self._shaped(message, disguise) for message in messages]):
                rendered = self._render(_cleaned(shaped, disguise), offered, variables)
                if isinstance(rendered, str):
                    return self._control.encode(clean_text(rendered), disguise)
                refusal = rendered
        except (RecursionError, ValueError, TypeError) as error:
            raise MessageError(f"messages or tools cannot be read: {error}") from error
        why = disguise.reveal(str(refusal))
        raise MessageError(f"the model's chat template refuses these messages: {why}") from refusal

    @cached_property
    def shows_tools(self) -> bool:
        """Whether the template writes tools into the prompt; else the model never hears of them."""
        function = FunctionSpec(name="probe", description="Looks.", parameters={"type": "object"})
        messages = (Message(role="user", content="Look."),)
        try:
            return self.ids(messages, (ToolSpec(function=function),)) != self.ids(messages)
        except MessageError:  # a template that wants other messages tells nothing about tools
            return True

    def tail(self, ids: Sequence[int]) -> str:
        """The end of a prompt's text, special tokens included: what the template wrote for the answer.

        Negative ids, which show images, are no text.
        """
        words = [token for token in ids[-TAIL_TOKENS:] if token >= 0]
        return str(self.tokenizer.decode(words, skip_special_tokens=False))

    def _shaped(self, message: Message, disguise: Disguise) -> dict[str, Any]:
        """The message in the shape the template takes."""
        return template_message(message)

    def _variables(self, template_kwargs: Mapping[str, Any], disguise: Disguise) -> dict[str, Any]:
        for name in template_kwargs:
            if not isinstance(name, str):
                raise ConfigurationError(f"chat_template_kwargs: the name {name!r} must be a string")
            if name in self._fixed:
                raise ConfigurationError(f"chat_template_kwargs: {name} is fixed; pass template variables")
        try:
            return {clean_text(name): _cleaned(value, disguise) for name, value in template_kwargs.items()}
        except RecursionError as error:
            raise ConfigurationError("chat_template_kwargs: a value is nested too deeply") from error

    def _render(
        self, shaped: list[dict[str, Any]], tools: list[Any], variables: Mapping[str, Any]
    ) -> str | Exception:
        """The prompt's text, or why the template refuses it."""
        try:
            text = self.tokenizer.apply_chat_template(
                shaped,
                tools=tools or None,
                chat_template=self._template,
                add_generation_prompt=True,
                tokenize=False,
                **variables,
            )
        except Exception as error:  # a template is a program: whatever ends it is its refusal
            return error
        return str(text)


def _shapes(shaped: list[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    """The messages as templates take them, the plainest first; the next is for a template that refuses it."""
    yield shaped
    if any(message["content"] is None for message in shaped):
        # Some templates take a call without words only with an empty text.
        shaped = [{**message, "content": message["content"] or ""} for message in shaped]
        yield shaped
    if any(message.get("tool_calls") or message.get("tool_call_id") for message in shaped):
        yield [_with_short_ids(message) for message in shaped]  # Mistral's demand nine letters and digits


def template_message(message: Message) -> dict[str, Any]:
    """The message in the shape chat templates expect: string content, arguments as objects.

    Only beside tool calls may content be absent, as null, which some templates look for.
    """
    data: dict[str, Any] = message.wire()
    if isinstance(message.content, tuple):
        data["content"] = "\n".join(part_text(part) for part in message.content)
    elif message.content is None:
        data["content"] = None if message.tool_calls else ""
    if message.tool_calls:
        data["tool_calls"] = [_template_call(call) for call in data["tool_calls"]]
    return data


def _template_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call.get("function")
    if not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return dict(call)
    return {**call, "function": {**function, "arguments": _object_or_text(function["arguments"])}}


def part_text(part: ContentPart) -> str:
    """A part's text; what has none is named, for a model that reads only text."""
    return part.text if part.text is not None else f"[{part.type}]"


def _object_or_text(arguments: str) -> Any:
    """Templates serialise arguments themselves, so JSON text would be quoted twice."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return parsed if isinstance(parsed, dict) else arguments


def _with_short_ids(message: Mapping[str, Any]) -> dict[str, Any]:
    """The message with the ids of calls cut to a hash, the same for the same id."""
    short = dict(message)
    if message.get("tool_calls"):
        short["tool_calls"] = [{**call, "id": _short_id(call.get("id"))} for call in message["tool_calls"]]
    if message.get("tool_call_id") is not None:
        short["tool_call_id"] = _short_id(message["tool_call_id"])
    return short


def _short_id(call_id: Any) -> str:
    text = str(call_id)
    if len(text) == SHORT_ID_LENGTH and text.isascii() and text.isalnum():
        return text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:SHORT_ID_LENGTH]


def _cleaned(value: Any, disguise: Disguise) -> Any:
    """The same structure of plain lists and dicts; in every string lone surrogates replaced, names hidden."""
    if isinstance(value, str):
        return disguise.hide(clean_text(value))
    if isinstance(value, Mapping):
        return {_cleaned(str(key), disguise): _cleaned(item, disguise) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item, disguise) for item in value]
    return value
