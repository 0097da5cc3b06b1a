"""A backend's answer as LangChain takes it: a ChatResult, or chunks that add up to the same message.

LangChain adds chunks up field by field: numbers are summed and texts joined. So usage, names and the report
come once, with the last chunk, which has no content. Calls are also kept as the model wrote them (in
`additional_kwargs`), so that they go back to it character for character.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import AIMessage, InvalidToolCall
from langchain_core.messages import AIMessageChunk as LangChainChunk
from langchain_core.messages import ToolCall as LangChainCall
from langchain_core.messages.ai import InputTokenDetails, UsageMetadata
from langchain_core.messages.tool import ToolCallChunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from pydantic import model_validator
from typing_extensions import Self

from asymspec_agents.backends import ChatDelta, ChatResponse, Usage
from asymspec_agents.errors import BackendError
from asymspec_agents.messages import ToolCall
from asymspec_agents.protocol import AsymSpecReport

__all__ = ["PROVIDER", "ChunkMaker", "chat_result"]

PROVIDER = "asymspec"

# LangChain completes broken JSON when it adds chunks up, and would have a call run that was cut off in its
# arguments. Nothing completes a bracket that was never opened. It stands in `tool_call_chunks` only.
_BROKEN = "]"
_NO_OBJECT = "the arguments are not a JSON object"


class _Whole:
    """What LangChain calls to make a message of a chunk: the class behind the chunk's own."""

    def __new__(cls, **fields: Any) -> Any:
        return AIMessage(**fields) if cls is _Whole else super().__new__(cls)


class AIMessageChunk(_Whole, LangChainChunk):
    """LangChain's chunk (and saved as that), whose invalid calls are as the model wrote them, and say why."""

    @model_validator(mode="after")
    def _show_as_written(self) -> Self:
        for invalid in self.invalid_tool_calls:
            if (invalid["args"] or "").startswith(_BROKEN) and invalid["error"] is None:
                invalid["args"] = (invalid["args"] or "").removeprefix(_BROKEN)
                invalid["error"] = _NO_OBJECT
        return self


def chat_result(response: ChatResponse, model_name: str) -> ChatResult:
    """The whole answer as one generation."""
    calls = list(_calls(response.tool_calls, set()))
    message = AIMessage(
        content=response.content,
        tool_calls=[call.valid(call.parsed) for call in calls if call.parsed is not None],
        invalid_tool_calls=[call.invalid() for call in calls if call.parsed is None],
        additional_kwargs=_additional(response.reasoning, calls),
        usage_metadata=_usage(response.usage),
        response_metadata=_metadata(response.finish_reason, response.report, model_name),
    )
    return ChatResult(generations=[ChatGeneration(message=message)])


class ChunkMaker:
    """Makes the chunks of one streamed answer."""

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name
        self._ids: set[str] = set()
        self._last = ChatDelta()

    @property
    def report(self) -> AsymSpecReport | None:
        """The report of the last step."""
        return self._last.report

    def chunks(self, delta: ChatDelta) -> Iterator[ChatGenerationChunk]:
        """The chunk of one step, if it has any content; its usage and report are kept for the last one."""
        self._last = delta
        first = len(self._ids)
        calls = list(_calls(delta.tool_calls, self._ids))
        if delta.content or delta.reasoning or calls:
            yield _chunk(
                content=delta.content,
                tool_call_chunks=[call.chunk(index) for index, call in enumerate(calls, first)],
                additional_kwargs=_additional(delta.reasoning, calls),
                response_metadata={"model_provider": PROVIDER},
            )

    def last(self) -> ChatGenerationChunk:
        """The chunk that ends the message. Raises BackendError where the answer is not whole."""
        last = self._last
        if last.finish_reason is None or last.usage is None:
            raise BackendError("the stream ended without finish_reason and usage")
        return _chunk(
            content="",
            usage_metadata=_usage(last.usage),
            response_metadata=_metadata(last.finish_reason, last.report, self._model_name),
            chunk_position="last",
        )


@dataclass(frozen=True, slots=True)
class _Call:
    """A call with an id, its arguments as written, and as an object; `parsed` is None where they are none."""

    id: str
    name: str
    arguments: str
    parsed: dict[str, Any] | None

    def valid(self, parsed: dict[str, Any]) -> LangChainCall:
        return LangChainCall(name=self.name, args=parsed, id=self.id, type="tool_call")

    def invalid(self) -> InvalidToolCall:
        return InvalidToolCall(
            name=self.name,
            args=self.arguments,
            id=self.id,
            error=_NO_OBJECT,
            type="invalid_tool_call",
        )

    def chunk(self, index: int) -> ToolCallChunk:
        written = self.arguments if self.parsed is not None else _BROKEN + self.arguments
        return ToolCallChunk(name=self.name, args=written, id=self.id, index=index, type="tool_call_chunk")

    def wire(self) -> dict[str, Any]:
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.id, "type": "function", "function": function}


def _calls(calls: Iterable[ToolCall], ids: set[str]) -> Iterator[_Call]:
    """The calls with ids that are not empty and not in `ids`, which takes them in.

    Results are paired with calls by id: of two with the same one, a result would answer both.
    """
    for call in calls:
        if call.function is None:
            continue
        identity = call.id
        if not identity or identity in ids:
            identity = f"call_{uuid.uuid4().hex}"
        ids.add(identity)
        written = _as_text(call.function.arguments)
        yield _Call(identity, call.function.name, written, _parsed(written))


def _as_text(arguments: Any) -> str:
    if arguments is None or arguments == "":
        return "{}"
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _parsed(written: str) -> dict[str, Any] | None:
    try:
        parsed = json.loads(written, strict=False)  # models write line breaks into strings
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _additional(reasoning: str, calls: Iterable[_Call]) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    if reasoning:
        fields["reasoning_content"] = reasoning  # from where LangChain's content blocks take it
    written = [call.wire() for call in calls]
    if written:
        fields["tool_calls"] = written
    return fields


def _metadata(finish_reason: str, report: AsymSpecReport | None, model_name: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "model_name": model_name,
        "model_provider": PROVIDER,
        "finish_reason": finish_reason,
    }
    if report is not None:
        metadata["asymspec"] = report.model_dump(mode="json")
    return metadata


def _usage(usage: Usage) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=usage.prompt_tokens,
        output_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        input_token_details=InputTokenDetails(cache_read=usage.cached_tokens),
    )


def _chunk(**fields: Any) -> ChatGenerationChunk:
    return ChatGenerationChunk(message=AIMessageChunk(**fields))
