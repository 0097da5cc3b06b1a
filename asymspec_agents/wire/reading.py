"""Answers in OpenAI's form, read: this package's own servers, vLLM's, and others that leave things out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from pydantic import ValidationError

from ..backends.answer import ChatDelta, ChatResponse, FinishReason, Usage
from ..errors import BackendError
from ..messages import FunctionCall, ToolCall, deepest
from ..protocol import AsymSpecReport
from .failures import raise_error

__all__ = [
    "CallParts",
    "CallPieces",
    "ChunkReader",
    "choice_of",
    "read_object",
    "read_response",
    "reasoning_of",
]

OTHER_NAMES: Mapping[str, FinishReason] = {"function_call": "tool_calls", "eos_token": "stop"}


def read_object(text: str | bytes) -> Mapping[str, Any]:
    """The JSON object of an answer. Raises BackendError for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BackendError(f"the server's answer is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BackendError("the server's answer is not a JSON object")
    return value


def read_response(answer: Mapping[str, Any]) -> ChatResponse:
    """A whole chat or text completion. Raises BackendError where it is none, or what an error stands for."""
    if answer.get("error"):  # some gateways answer 200 all the same
        raise_error(200, answer, "the server")
    choice = choice_of(answer)
    if choice is None:
        raise BackendError("the server's answer has no choices")
    message = choice.get("message")
    message = message if isinstance(message, Mapping) else {"content": choice.get("text")}
    calls = [CallParts() for _ in _calls(message)]
    for parts, call in zip(calls, _calls(message), strict=True):
        parts.add(call)
    finish_reason = _finish_reason(choice.get("finish_reason"))
    if finish_reason is None:
        raise BackendError("the server's answer has no finish reason")
    return ChatResponse(
        content=_content(message),
        tool_calls=tuple(call.whole() for call in calls),
        finish_reason=finish_reason,
        usage=_usage(answer.get("usage")) or Usage(0, 0),
        report=_report(answer),
        reasoning=reasoning_of(message),
    )


class ChunkReader:
    """The chunks of one stream to deltas; what comes last is gathered for `last`."""

    def __init__(self) -> None:
        self._calls = CallPieces()
        self._finish_reason: FinishReason | None = None
        self._usage: Usage | None = None
        self._report: AsymSpecReport | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the answer's end was seen."""
        return self._finish_reason is not None

    def feed(self, chunk: Mapping[str, Any]) -> ChatDelta | None:
        """The text of this chunk, None where it has none. Raises what an error in the stream stands for."""
        if chunk.get("error"):
            raise_error(200, chunk, "the server")
        self._usage = _usage(chunk.get("usage")) or self._usage
        self._report = _report(chunk) or self._report
        choice = choice_of(chunk)
        if choice is None:
            return None
        self._finish_reason = _finish_reason(choice.get("finish_reason")) or self._finish_reason
        delta = choice.get("delta")
        delta = delta if isinstance(delta, Mapping) else {"content": choice.get("text")}
        self._calls.add(delta)
        content, reasoning = _content(delta), reasoning_of(delta)
        return ChatDelta(content=content, reasoning=reasoning) if content or reasoning else None

    def last(self) -> ChatDelta:
        """The delta that ends the answer: calls, finish reason, usage, report."""
        return ChatDelta(
            tool_calls=tuple(call.whole() for call in self._calls.calls),
            finish_reason=self._finish_reason,
            usage=self._usage or Usage(0, 0),
            report=self._report,
        )


class CallPieces:
    """The tool calls of a stream, put together from the pieces of its deltas."""

    def __init__(self) -> None:
        self.calls: list[CallParts] = []
        self._at: dict[int, CallParts] = {}

    def add(self, delta: Mapping[str, Any]) -> None:
        """Takes in the pieces of one delta. Raises BackendError for what is none."""
        for call in _calls(delta):
            self._parts(call).add(call)

    def _parts(self, call: Mapping[str, Any]) -> CallParts:
        """The call that this piece belongs to: that of its index, unless it begins another one.

        Some servers leave the index out, or give 0 to every call; a new id beside a name then tells.
        """
        index = call.get("index")
        last = self.calls[-1] if self.calls else None
        known = self._at.get(index) if isinstance(index, int) else last
        if known is None or known.is_other(call):
            known = CallParts()
            self.calls.append(known)
        if isinstance(index, int):
            self._at[index] = known
        return known


@dataclass(slots=True)
class CallParts:
    """A tool call that may come in pieces; whatever of it has come so far."""

    id: str | None = None
    name: str = ""
    arguments: str = ""

    def is_other(self, call: Mapping[str, Any]) -> bool:
        """Whether a piece begins a call after this one."""
        identity, name = _text(call.get("id")), _text(_function(call).get("name"))
        return bool(self.name and name and identity and identity != self.id)

    def add(self, call: Mapping[str, Any]) -> None:
        function = _function(call)
        self.id = self.id or _text(call.get("id")) or None
        self.name = self.name or _text(function.get("name"))
        arguments = function.get("arguments")
        if arguments is not None:  # some servers send an object where the format has a JSON text
            self.arguments += arguments if isinstance(arguments, str) else json.dumps(arguments)

    def whole(self) -> ToolCall:
        if not self.name:
            raise BackendError("the server made a tool call without a function's name")
        function = FunctionCall(name=self.name, arguments=self.arguments or "{}")
        return ToolCall(id=self.id, type="function", function=function)


def choice_of(answer: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The first choice of an answer or chunk, None where it has none."""
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], Mapping):
        return None
    first: Mapping[str, Any] = choices[0]
    return first


def _calls(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The tool calls of a message or delta. Raises BackendError for what is none: a call is never dropped."""
    calls = message.get("tool_calls")
    if not calls:
        return []
    if not isinstance(calls, list) or not all(isinstance(call, Mapping) for call in calls):
        raise BackendError("the server's tool_calls are not a list of objects")
    return calls


def _function(call: Mapping[str, Any]) -> Mapping[str, Any]:
    function = call.get("function")
    return function if isinstance(function, Mapping) else {}


def _finish_reason(reason: object) -> FinishReason | None:
    if reason is None or reason == "":
        return None
    known: dict[str, FinishReason] = {name: name for name in get_args(FinishReason)} | dict(OTHER_NAMES)
    if not isinstance(reason, str) or reason not in known:
        raise BackendError(f"the server ended the answer with finish_reason={reason!r}")
    return known[reason]


def _text(content: object) -> str:
    return content if isinstance(content, str) else ""


def _content(message: Mapping[str, Any]) -> str:
    """The text of a message or delta: a string, the text parts of a list, or a refusal's."""
    content = message.get("content")
    if isinstance(content, list):
        content = "".join(_text(part.get("text")) for part in content if isinstance(part, Mapping))
    return _text(content) or _text(message.get("refusal"))


def reasoning_of(message: Mapping[str, Any]) -> str:
    """What a thinking model wrote before its answer, by either of its names."""
    return _text(message.get("reasoning")) or _text(message.get("reasoning_content"))


def _usage(usage: object) -> Usage | None:
    if not isinstance(usage, Mapping):
        return None
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, Mapping) else 0
    return Usage(_count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens")), _count(cached))


def _count(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _report(answer: Mapping[str, Any]) -> AsymSpecReport | None:
    report = answer.get("asymspec")
    if report is None:
        return None
    try:
        return AsymSpecReport.model_validate(report)
    except ValidationError as error:
        raise BackendError(f"the server's AsymSpec report is malformed: {deepest(error)['msg']}") from error
