"""From a request's body to vLLM's own request objects: one for the answer, one for the other view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from pydantic import BaseModel, PrivateAttr, ValidationError

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message, ToolSpec, deepest, index_path
from asymspec_agents.tokens import clean_text

from ..wire_args import EXTRA_ARG
from .compat import ChatCompletionRequest, CompletionRequest, SamplingParams, TokenizeParams
from .pictures import SHOWN, ViewsOfImages, joined

__all__ = ["DEFAULT_COMPLETION_TOKENS", "ChatViews", "CompletionViews", "chat_views", "completion_views"]

# Of the server's defaults only this one is no matter of sampling: AsymSpec decodes greedily, unpenalised.
KEPT_DEFAULTS = ("stop_token_ids",)

# Not vLLM's to read: our object, and the answer's length, which both views decide once they are rendered.
TAKEN = frozenset({"asymspec", "max_completion_tokens", "max_tokens"})

DEFAULT_COMPLETION_TOKENS: int = CompletionRequest.model_fields["max_tokens"].default

_M = TypeVar("_M", bound=BaseModel)
Prompt = str | tuple[int, ...]


class _Unlimited:
    """Views have limits of their own, checked once both are rendered."""

    def build_tok_params(self, model_config: Any) -> TokenizeParams:
        params = super().build_tok_params(model_config)  # type: ignore[misc]
        return replace(params, max_total_tokens=None)


class _Greedy(_Unlimited):
    """Decodes greedily, and takes along what the engine has to know of the full view."""

    _engine_argument: dict[str, Any] | None

    def to_sampling_params(self, max_tokens: int, default_sampling_params: dict[str, Any]) -> SamplingParams:
        defaults = {name: default_sampling_params.get(name) for name in KEPT_DEFAULTS}
        params = super().to_sampling_params(max_tokens, defaults)  # type: ignore[misc]
        if self._engine_argument is not None:
            params.extra_args = {**(params.extra_args or {}), EXTRA_ARG: self._engine_argument}
        return params


class OtherChatView(_Unlimited, ChatCompletionRequest):  # type: ignore[misc]
    """Another view of the conversation, rendered and then dropped."""


@dataclass(frozen=True, slots=True)
class SeenChat:
    """Both views of a chat as a drafter that sees reads them: the full one has its images."""

    full: OtherChatView
    compressed: OtherChatView


class ChatViews(_Greedy, ChatCompletionRequest):  # type: ignore[misc]
    """A chat request on two views. Its messages and tools are the full ones, for grammars and parsers; where
    they have images, texts stand for those."""

    _engine_argument: dict[str, Any] | None = PrivateAttr(default=None)
    _compressed: OtherChatView = PrivateAttr()
    _seen: SeenChat | None = PrivateAttr(default=None)

    @property
    def compressed(self) -> OtherChatView:
        """The same request with the compressed view's messages and tools."""
        return self._compressed

    @property
    def seen(self) -> SeenChat | None:
        """Both views for a drafter that sees; None where the drafter reads what the verifier reads."""
        return self._seen

    def settle(self, engine_argument: dict[str, Any] | None, max_tokens: int) -> None:
        """Sets what is known once both views are rendered."""
        self._engine_argument = engine_argument
        self.max_tokens = max_tokens


class OtherPrompt(_Unlimited, CompletionRequest):  # type: ignore[misc]
    """The compressed prompt of a completion, tokenized and then dropped."""


class CompletionViews(_Greedy, CompletionRequest):  # type: ignore[misc]
    """A completion request on two prompts; its own is the full one."""

    _engine_argument: dict[str, Any] | None = PrivateAttr(default=None)
    _compressed: OtherPrompt = PrivateAttr()

    @property
    def compressed(self) -> OtherPrompt:
        """The same request with the compressed prompt."""
        return self._compressed

    def settle(self, engine_argument: dict[str, Any] | None, max_tokens: int) -> None:
        """Sets what is known once both prompts are tokenized."""
        self._engine_argument = engine_argument
        self.max_tokens = max_tokens


def chat_views(
    body: Mapping[str, Any],
    messages: ViewsOfImages,
    short_tools: Sequence[ToolSpec] | None,
    *,
    sees: bool = False,
) -> ChatViews:
    """vLLM's request for a chat body with these views of its messages, and tools for the compressed one.

    `sees`: the drafter sees images, and reads every chat by a template of its own. Raises ConfigurationError
    for what vLLM refuses.
    """
    fields = _fields(body)
    tools = fields.get("tools")
    other_tools = tools if short_tools is None else [_cleaned(tool.wire()) for tool in short_tools]
    fields["messages"] = _wire(messages.full)
    views = _validated(ChatViews, _with_tools(fields, tools))
    other = {**fields, "messages": _wire(messages.compressed)}
    views._compressed = _validated(OtherChatView, _with_tools(other, other_tools))
    if sees:
        full = {**fields, "messages": _wire(joined(messages.full))}
        told = _validated(OtherChatView, _with_tools(full, tools))
        shown = _shown(told.messages, joined(messages.shown or ()))
        other = {**fields, "messages": _wire(joined(messages.compressed))}
        views._seen = SeenChat(
            told.model_copy(update={"messages": shown}),
            _validated(OtherChatView, _with_tools(other, other_tools)),
        )
    return views


def completion_views(body: Mapping[str, Any], full: Prompt, compressed: Prompt) -> CompletionViews:
    """vLLM's request for a completion body with these prompts; its raises are those of `chat_views`."""
    for view, prompt in (("full", full), ("compressed", compressed)):
        if not prompt:
            raise ConfigurationError(f"the {view} view has no tokens; it needs at least one")
    fields = _fields(body)
    views = _validated(CompletionViews, {**fields, "prompt": _prompt(full)})
    views._compressed = _validated(OtherPrompt, {**fields, "prompt": _prompt(compressed)})
    return views


def _fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """The body as vLLM takes it: greedy, without what is ours to settle, its texts valid Unicode."""
    fields = {name: value for name, value in body.items() if name not in TAKEN and value is not None}
    if not fields.get("cache_salt"):
        fields.pop("cache_salt", None)
    return {**_cleaned(fields), "temperature": 0, "max_tokens": None}


def _with_tools(fields: Mapping[str, Any], tools: Any) -> dict[str, Any]:
    """The fields with these tools; without any there is nothing to choose."""
    result = {name: value for name, value in fields.items() if name != "tools"}
    if tools:
        return {**result, "tools": tools}
    if result.get("tool_choice") in ("auto", "none"):
        del result["tool_choice"]
    return result


def _shown(told: Sequence[Any], messages: Sequence[Message]) -> list[Any]:
    """vLLM's messages with pictures in them, which it takes anywhere, though not through its validation."""
    changed = list(told)
    for index, message in enumerate(messages):
        if isinstance(message.content, tuple) and any(part.type == SHOWN for part in message.content):
            changed[index] = {**told[index], "content": _wire([message])[0]["content"]}
    return changed


def _wire(messages: Sequence[Message]) -> list[Any]:
    return [_cleaned(message.wire()) for message in messages]


def _prompt(prompt: Prompt) -> str | list[int]:
    return clean_text(prompt) if isinstance(prompt, str) else list(prompt)


def _cleaned(value: Any) -> Any:
    """The same with lone surrogates replaced, which tool outputs contain and no tokenizer takes."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, Mapping):
        return {clean_text(key): _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value


def _validated(kind: type[_M], fields: Mapping[str, Any]) -> _M:
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        problem = deepest(error)
        place = index_path(problem["loc"]).removeprefix(".")
        raise ConfigurationError(f"{place}: {problem['msg']}" if place else problem["msg"]) from error
    except ValueError as error:  # some of vLLM's own checks come through as they are
        raise ConfigurationError(str(error)) from error
