"""Request bodies of `POST /v1/chat/completions` and `/v1/completions`, to requests and back.

Sources: OpenAI API reference; vLLM's OpenAI-compatible server for `cache_salt`, `session_id`, `request_id`
and `chat_template_kwargs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, ValidationError

from ..backends.request import AnyRequest, ChatRequest, CompletionRequest, new_request_id
from ..errors import ConfigurationError, MessageError
from ..messages import Message, Text, ToolSpec, check_conversation, deepest, index_path
from ..protocol import AsymSpecCompletion, AsymSpecRequest
from .fields import without_neutral

__all__ = ["ChatBody", "CompletionBody", "Incoming", "parse_chat", "parse_completion", "request_body"]

_Body = TypeVar("_Body", bound="RequestBody")
TokenCount = Annotated[int, Field(ge=1, lt=2**31, strict=True)]
COMPLETION_TOKENS = 16  # of a text completion that names no number, as with OpenAI: most texts have no end
CONTENT_FIELDS = {"messages", "prompt", "edits", "tools", "chat_template_kwargs"}
EDIT_PLACES = {("message",), ("part",)}  # numbers that say where an edit is


class StreamOptions(BaseModel):
    """What a stream carries besides the answer."""

    model_config = ConfigDict(extra="allow", frozen=True)

    include_usage: StrictBool = False


class RequestBody(BaseModel):
    """What both kinds of request have. Fields it does not name are kept."""

    model_config = ConfigDict(extra="allow", frozen=True)

    model: Text | None = None
    max_tokens: TokenCount | None = None
    stop: Text | tuple[Text, ...] | None = None
    temperature: Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1, strict=True)] | None = None
    seed: Annotated[int, Field(ge=-(2**63), lt=2**63, strict=True)] | None = None
    stream: StrictBool | None = None
    stream_options: StreamOptions | None = None
    cache_salt: Annotated[Text, Field(max_length=1_024)] | None = None
    session_id: Annotated[Text, Field(max_length=1_024)] | None = None
    request_id: Text | None = None


class ChatBody(RequestBody):
    """The body of `POST /v1/chat/completions`; `messages` and `tools` are the full view."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] | None = None
    max_completion_tokens: TokenCount | None = None
    tool_choice: Text | dict[str, Any] | None = None
    parallel_tool_calls: StrictBool | None = None
    response_format: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    asymspec: AsymSpecRequest | None = None


class CompletionBody(RequestBody):
    """The body of `POST /v1/completions`; `prompt` is the full view, a text or token ids."""

    prompt: Text | tuple[StrictInt, ...] | tuple[Text, ...] | tuple[tuple[StrictInt, ...], ...]
    max_tokens: TokenCount | None = COMPLETION_TOKENS  # null, unlike nothing, sets no limit
    asymspec: AsymSpecCompletion | None = None


@dataclass(frozen=True, slots=True)
class Incoming:
    """A request as a server gets it: what to answer, by which model, and in which form."""

    request: AnyRequest
    model: str | None
    is_stream: bool
    has_usage_chunk: bool


def parse_chat(body: Mapping[str, Any], *, request_id: str | None = None) -> Incoming:
    """The chat request of a body. Raises MessageError or ConfigurationError naming field, value and limit.

    `request_id` is the transport's own (a header); the body's outranks it.
    """
    parsed = _validated(ChatBody, body)
    check_conversation(parsed.messages)
    asymspec = parsed.asymspec
    if asymspec is not None:
        check_conversation(asymspec.compressed_messages(parsed.messages), "asymspec.messages")
    limits = {parsed.max_tokens, parsed.max_completion_tokens} - {None}
    if len(limits) > 1:
        raise ConfigurationError("max_tokens and max_completion_tokens differ; give one of them")
    tools, tool_choice = parsed.tools or (), parsed.tool_choice
    if not tools and tool_choice in ("auto", "none"):
        tool_choice = None
    request = ChatRequest(
        messages=parsed.messages,
        tools=tools,
        asymspec=asymspec,
        max_tokens=limits.pop() if limits else None,
        tool_choice=tool_choice,
        parallel_tool_calls=parsed.parallel_tool_calls,
        response_format=parsed.response_format,
        chat_template_kwargs=parsed.chat_template_kwargs or {},
        **_shared(parsed, request_id),
    )
    return _incoming(parsed, request)


def parse_completion(body: Mapping[str, Any], *, request_id: str | None = None) -> Incoming:
    """The completion request of a body. Raises ConfigurationError naming field, value and limit."""
    parsed = _validated(CompletionBody, body)
    prompt: Any = parsed.prompt
    if isinstance(prompt, tuple) and prompt and not isinstance(prompt[0], int):
        if len(prompt) > 1:
            raise ConfigurationError(f"prompt: {len(prompt)} prompts in one request; send one request each")
        prompt = prompt[0]
    request = CompletionRequest(
        prompt=prompt, asymspec=parsed.asymspec, max_tokens=parsed.max_tokens, **_shared(parsed, request_id)
    )
    return _incoming(parsed, request)


def request_body(request: AnyRequest, model: str | None) -> dict[str, Any]:
    """The body that asks a server for this request, streaming aside.

    `temperature` is always sent, as servers sample when it is left out. Raises ConfigurationError for an
    `extra` field that names one of the request's own.
    """
    body: dict[str, Any] = {"temperature": request.temperature or 0}
    if model is not None:
        body["model"] = model
    if isinstance(request, ChatRequest):
        body["messages"] = [message.wire() for message in request.messages]
        if request.tools:
            body["tools"] = [tool.wire() for tool in request.tools]
        optional: Mapping[str, Any] = {
            "tool_choice": request.tool_choice,
            "parallel_tool_calls": request.parallel_tool_calls,
            "response_format": request.response_format,
            "chat_template_kwargs": dict(request.chat_template_kwargs) or None,
        }
    else:
        body["prompt"] = request.prompt if isinstance(request.prompt, str) else list(request.prompt)
        body["max_tokens"] = None  # where left out, a server takes a small number of its own
        optional = {}
    optional = {
        **optional,
        "max_tokens": request.max_tokens,
        "stop": list(request.stop) or None,
        "top_p": request.top_p,
        "seed": request.seed,
        "cache_salt": request.cache_salt,
        "session_id": request.session_id,
        "asymspec": None if request.asymspec is None else request.asymspec.wire(),
    }
    known = RequestBody.model_fields.keys() | ChatBody.model_fields.keys() | {"prompt"}
    taken = sorted(known & request.extra.keys())
    if taken:
        raise ConfigurationError(f"extra.{taken[0]}: a field of the request itself; set it there")
    return {**request.extra, **body, **{name: value for name, value in optional.items() if value is not None}}


def _validated(kind: type[_Body], body: Mapping[str, Any]) -> _Body:
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        problem = deepest(error)
        place = index_path(problem["loc"]).removeprefix(".") or "the body"
        is_about_messages = place.startswith(("messages", "asymspec.messages", "asymspec.edits"))
        raised = MessageError if is_about_messages else ConfigurationError
        shown = "" if _is_content(problem["loc"], problem["input"]) else _shown(problem["input"])
        raise raised(f"{place}{shown}: {problem['msg']}") from error


def _is_content(location: tuple[int | str, ...], value: object) -> bool:
    """Texts of messages and prompts are somebody's content: they stay out of errors."""
    is_place = location[-1:] in EDIT_PLACES and isinstance(value, int | float)
    return not is_place and not CONTENT_FIELDS.isdisjoint(location)


def _shown(value: object) -> str:
    is_short = isinstance(value, str | int | float) and len(repr(value)) <= 80
    return f"={value!r}" if is_short else ""


def _shared(parsed: RequestBody, request_id: str | None) -> dict[str, Any]:
    stop = parsed.stop
    return {
        "stop": (stop,) if isinstance(stop, str) else tuple(stop or ()),
        "temperature": parsed.temperature,
        "top_p": parsed.top_p,
        "seed": parsed.seed,
        "cache_salt": parsed.cache_salt,
        "session_id": parsed.session_id,
        "request_id": parsed.request_id or request_id or new_request_id(),
        "extra": without_neutral(parsed.model_extra or {}),
    }


def _incoming(parsed: RequestBody, request: AnyRequest) -> Incoming:
    options = parsed.stream_options
    return Incoming(
        request=request,
        model=parsed.model,
        is_stream=bool(parsed.stream),
        has_usage_chunk=options is not None and options.include_usage,
    )
