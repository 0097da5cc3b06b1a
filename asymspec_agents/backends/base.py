"""What a backend is: it takes a chat request that carries both views and answers it, whole or in a stream."""

from __future__ import annotations

import asyncio
import math
import threading
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from types import UnionType
from typing import Any, Literal

from ..errors import ConfigurationError
from ..messages import Message, ToolCall, ToolSpec, parse_messages, parse_tools
from ..protocol import AsymSpecReport, AsymSpecRequest

__all__ = [
    "Backend",
    "Capabilities",
    "ChatDelta",
    "ChatRequest",
    "ChatResponse",
    "Origin",
    "Segment",
    "Usage",
    "collect",
]

Origin = Literal["accepted", "fused", "bonus", "plain"]


def _is_number(value: object, kind: type | UnionType) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def new_request_id() -> str:
    """A fresh random request id."""
    return uuid.uuid4().hex


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One LLM call. `messages` and `tools` are the full view; without `asymspec` it is a plain completion.

    `stop` strings are not part of the answer. `temperature` None means greedy for an AsymSpec request.
    `cache_salt` isolates prefix caches between tenants. `extra` holds further OpenAI fields for backends that
    pass them on; a backend that cannot honour one refuses the request. Messages and tools may be given as
    wire dicts. Raises MessageError and ConfigurationError naming what is malformed.
    """

    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    asymspec: AsymSpecRequest | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    tool_choice: str | Mapping[str, Any] | None = None
    response_format: Mapping[str, Any] | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    cache_salt: str | None = None
    session_id: str | None = None
    request_id: str = field(default_factory=new_request_id)
    extra: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "messages", parse_messages(self.messages))
        object.__setattr__(self, "tools", parse_tools(self.tools))
        asymspec = self.asymspec
        if isinstance(asymspec, Mapping):
            asymspec = AsymSpecRequest.of(**asymspec)
            object.__setattr__(self, "asymspec", asymspec)
        is_request = asymspec is None or isinstance(asymspec, AsymSpecRequest)
        self._check_type("asymspec", is_request, "an AsymSpecRequest")
        for name in ("chat_template_kwargs", "extra"):
            self._check_type(name, isinstance(getattr(self, name), Mapping), "a mapping")
        response_format, tool_choice = self.response_format, self.tool_choice
        self._check_type(
            "response_format", response_format is None or isinstance(response_format, Mapping), "a mapping"
        )
        is_choice = tool_choice is None or isinstance(tool_choice, str | Mapping)
        self._check_type("tool_choice", is_choice, "a name or a mapping")
        self._check_type("request_id", isinstance(self.request_id, str), "a string")
        for name in ("cache_salt", "session_id"):
            value = getattr(self, name)
            self._check_type(name, value is None or isinstance(value, str), "a string")
        is_list = isinstance(self.stop, list | tuple)
        if not is_list or not all(isinstance(text, str) and text for text in self.stop):
            raise ConfigurationError(f"stop={self.stop!r} must be a list of strings that are not empty")
        object.__setattr__(self, "stop", tuple(self.stop))
        if self.max_tokens is not None and not (_is_number(self.max_tokens, int) and self.max_tokens >= 1):
            raise ConfigurationError(f"max_tokens={self.max_tokens!r} must be an integer of at least 1")
        if self.temperature is not None and not (
            _is_number(self.temperature, int | float) and 0 <= self.temperature < math.inf
        ):
            raise ConfigurationError(f"temperature={self.temperature!r} must be a number of at least 0")

    def _check_type(self, name: str, is_right: bool, wanted: str) -> None:
        if not is_right:
            raise ConfigurationError(f"{name} must be {wanted}, not {type(getattr(self, name)).__name__}")


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call: the verifier's prompt (or the only model's), and the answer."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of emitted text and how its last token came about (`plain`: no speculation)."""

    text: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class ChatDelta:
    """One step of a streamed answer; only the last has `finish_reason`, `usage` and `report`."""

    content: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    segments: tuple[Segment, ...] = ()
    finish_reason: Literal["stop", "length", "tool_calls"] | None = None
    usage: Usage | None = None
    report: AsymSpecReport | None = None


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """A whole answer; `report` is None where the request was a plain completion."""

    content: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: Literal["stop", "length", "tool_calls"]
    usage: Usage
    report: AsymSpecReport | None
    segments: tuple[Segment, ...] = ()

    @property
    def raw_text(self) -> str:
        """The model's text before tool calls were parsed out of it."""
        return "".join(segment.text for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do: model names, AsymSpec modes (empty: none), and both views' token limits."""

    verifier: str
    drafter: str | None
    modes: tuple[str, ...] = ()
    max_verifier_tokens: int | None = None
    max_drafter_tokens: int | None = None


def collect(deltas: Iterator[ChatDelta]) -> ChatResponse:
    """The whole answer of a stream of deltas; the last one must carry finish_reason and usage."""
    content: list[str] = []
    tool_calls: list[ToolCall] = []
    segments: list[Segment] = []
    last = ChatDelta()
    for last in deltas:
        content.append(last.content)
        tool_calls.extend(last.tool_calls)
        segments.extend(last.segments)
    if last.finish_reason is None or last.usage is None:
        raise RuntimeError("the stream ended without finish_reason and usage")
    return ChatResponse(
        "".join(content), tuple(tool_calls), last.finish_reason, last.usage, last.report, tuple(segments)
    )


class Backend(ABC):
    """Answers chat requests. A subclass writes `capabilities` and `stream`; the other forms follow.

    Invariants: deltas' contents concatenate to the response's content; usage and report come once, last.
    Closing a stream early, or cancelling an async one, aborts the request.
    """

    @property
    @abstractmethod
    def capabilities(self) -> Capabilities:
        """What this backend can do."""

    @abstractmethod
    def stream(self, request: ChatRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        """The answer step by step; setting `abort` ends it at the next chance."""

    def generate(self, request: ChatRequest) -> ChatResponse:
        """The whole answer."""
        return collect(self.stream(request))

    async def astream(self, request: ChatRequest) -> AsyncIterator[ChatDelta]:
        """The answer step by step; the synchronous stream runs in a thread of its own."""
        loop = asyncio.get_running_loop()
        queue: asyncio.Queue[ChatDelta | BaseException | None] = asyncio.Queue()
        cancelled = threading.Event()

        def put(item: ChatDelta | BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(queue.put_nowait, item)
            except RuntimeError:  # the loop is closed: nobody waits any more
                cancelled.set()

        def pump() -> None:
            try:
                deltas = self.stream(request, abort=cancelled)
                try:
                    for delta in deltas:
                        if cancelled.is_set():
                            return
                        put(delta)
                finally:
                    close = getattr(deltas, "close", None)
                    if close is not None:
                        close()
                put(None)
            except BaseException as error:  # handed to the awaiting caller
                put(error)

        thread = threading.Thread(target=pump, name=f"asymspec-{request.request_id[:8]}", daemon=True)
        thread.start()
        try:
            while True:
                item = await queue.get()
                if item is None:
                    return
                if isinstance(item, BaseException):
                    raise item
                yield item
        finally:
            cancelled.set()

    async def agenerate(self, request: ChatRequest) -> ChatResponse:
        """The whole answer, awaited; cancelling the task aborts the request."""
        return collect(iter([delta async for delta in self.astream(request)]))

    def close(self) -> None:
        """Releases what the backend holds; the default holds nothing."""
        return
