"""What a backend is asked: one LLM call, as a conversation or as a bare prompt, with both of its views."""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any

from ..errors import ConfigurationError
from ..messages import Message, ToolSpec, parse_messages, parse_tools
from ..protocol import AsymSpecCompletion, AsymSpecRequest

__all__ = ["AnyRequest", "ChatRequest", "CompletionRequest", "Request", "new_request_id"]


def new_request_id() -> str:
    """A fresh random request id."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What every call has, whatever its prompt is.

    `stop` strings are not part of the answer. `temperature` None means greedy; `top_p` and `seed` matter only
    where a temperature above 0 samples. `cache_salt` isolates prefix caches between tenants. `extra` holds
    further OpenAI fields for backends that pass them on; a backend that cannot honour one refuses it.
    Raises ConfigurationError naming what is malformed.
    """

    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    top_p: float | None = None
    seed: int | None = None
    cache_salt: str | None = None
    session_id: str | None = None
    request_id: str = field(default_factory=new_request_id)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._check_type("extra", isinstance(self.extra, Mapping), "a mapping")
        self._check_type("request_id", isinstance(self.request_id, str), "a string")
        for name in ("cache_salt", "session_id"):
            value = getattr(self, name)
            self._check_type(name, value is None or isinstance(value, str), "a string")
        is_list = isinstance(self.stop, list | tuple)
        if not is_list or not all(isinstance(text, str) and text for text in self.stop):
            raise ConfigurationError(f"stop={self.stop!r} must be a list of strings that are not empty")
        object.__setattr__(self, "stop", tuple(self.stop))
        self._check_number("max_tokens", int, 1, math.inf, "an integer of at least 1")
        self._check_number("temperature", int | float, 0, math.inf, "a number of at least 0")
        self._check_number("top_p", int | float, 0, 1, "a number from 0 to 1")
        self._check_number("seed", int, -(2**63), 2**63 - 1, "an integer of 64 bits")

    def _check_type(self, name: str, is_right: bool, wanted: str) -> None:
        if not is_right:
            raise ConfigurationError(f"{name} must be {wanted}, not {type(getattr(self, name)).__name__}")

    def _check_number(
        self, name: str, kind: type | UnionType, lowest: float, highest: float, wanted: str
    ) -> None:
        value = getattr(self, name)
        is_number = isinstance(value, kind) and not isinstance(value, bool)
        if value is not None and not (is_number and lowest <= value <= highest and value != math.inf):
            raise ConfigurationError(f"{name}={value!r} must be {wanted}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest(Request):
    """One chat call. `messages` and `tools` are the full view; without `asymspec` it is a plain completion.

    Messages, tools and `asymspec` may be given as wire dicts. `parallel_tool_calls` False: at most one call,
    the first.
    Raises MessageError and ConfigurationError naming what is malformed.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    asymspec: AsymSpecRequest | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: Mapping[str, Any] | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        object.__setattr__(self, "messages", parse_messages(self.messages))
        object.__setattr__(self, "tools", parse_tools(self.tools))
        asymspec = self.asymspec
        if isinstance(asymspec, Mapping):
            asymspec = AsymSpecRequest.of(**asymspec)
            object.__setattr__(self, "asymspec", asymspec)
        is_request = asymspec is None or isinstance(asymspec, AsymSpecRequest)
        self._check_type("asymspec", is_request, "an AsymSpecRequest")
        is_mapping = isinstance(self.chat_template_kwargs, Mapping)
        self._check_type("chat_template_kwargs", is_mapping, "a mapping")
        response_format, tool_choice = self.response_format, self.tool_choice
        self._check_type(
            "response_format", response_format is None or isinstance(response_format, Mapping), "a mapping"
        )
        is_choice = tool_choice is None or isinstance(tool_choice, str | Mapping)
        self._check_type("tool_choice", is_choice, "a name or a mapping")
        is_flag = self.parallel_tool_calls is None or isinstance(self.parallel_tool_calls, bool)
        self._check_type("parallel_tool_calls", is_flag, "true or false")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest(Request):
    """One text completion: `prompt` is the full view, `asymspec.prompt` the compressed one.

    Each is a text, to which the tokenizer adds its beginning of text if it has one, or token ids, taken as
    they are. Raises ConfigurationError naming what is malformed.
    """

    prompt: str | tuple[int, ...]
    asymspec: AsymSpecCompletion | None = None

    def __post_init__(self) -> None:
        Request.__post_init__(self)
        if isinstance(self.prompt, list):
            object.__setattr__(self, "prompt", tuple(self.prompt))
        is_prompt = isinstance(self.prompt, str) or (
            isinstance(self.prompt, tuple)
            and all(isinstance(item, int) and not isinstance(item, bool) for item in self.prompt)
        )
        if not is_prompt:
            raise ConfigurationError("prompt must be a text or a list of token ids")
        asymspec = self.asymspec
        if isinstance(asymspec, Mapping):
            asymspec = AsymSpecCompletion.of(**asymspec)
            object.__setattr__(self, "asymspec", asymspec)
        is_request = asymspec is None or isinstance(asymspec, AsymSpecCompletion)
        self._check_type("asymspec", is_request, "an AsymSpecCompletion")


AnyRequest = ChatRequest | CompletionRequest
