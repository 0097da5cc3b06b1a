"""A scripted arm for agent episodes: an Asker over any backend, and shorthands for what a model writes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asymspec_agents.backends import Backend, ChatRequest, ChatResponse, Usage
from asymspec_agents.backends.scripted import ScriptedBackend
from asymspec_agents.messages import Message, ToolSpec, parse_messages
from asymspec_agents.protocol import apply_edits
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy
from evals.cells import Cell
from evals.records import Call, Output
from evals.sample import LongPart


@dataclass
class BackendAsker:
    """An Asker over a backend; its router is a plain one, under the policy that it is given."""

    given: Backend
    cell: Cell = field(default_factory=lambda: Cell.parse("asymspec on extract@0.3"))
    policies: list[ViewPolicy | None] = field(default_factory=list)
    sees_images: bool = False

    def ask(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[ToolSpec | Mapping[str, Any]] = (),
        *,
        query: str = "",
        long_parts: Sequence[LongPart] = (),
        max_tokens: int,
        stop: Sequence[str] = (),
    ) -> ChatResponse:
        raise AssertionError("an agent makes its calls through backend()")

    def backend(self) -> Backend:
        return self.given

    def router(self, policy: ViewPolicy | None = None) -> ContextRouter:
        self.policies.append(policy)
        return ContextRouter(policy)

    def output(self, answer: str, **fields: Any) -> Output:
        requests = self.given.requests if isinstance(self.given, ScriptedBackend) else []
        return Output(answer=answer, calls=tuple(Call() for _ in requests), **fields)


def scripted(*replies: Any) -> tuple[BackendAsker, ScriptedBackend]:
    """An asker whose model gives these replies, and its backend."""
    backend = ScriptedBackend(replies)
    return BackendAsker(backend), backend


def function(name: str, arguments: Mapping[str, Any]) -> dict[str, str]:
    """A call's function on the wire."""
    return {"name": name, "arguments": json.dumps(arguments)}


def calls(*pairs: tuple[str, Mapping[str, Any]]) -> ChatResponse:
    """An answer that makes tool calls."""
    made = parse_messages(
        [
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": f"call_{at}", "type": "function", "function": function(name, given)}
                    for at, (name, given) in enumerate(pairs)
                ],
            }
        ]
    )[0].tool_calls
    return ChatResponse("", made or (), "tool_calls", Usage(100, 7), None)


def call(name: str, **arguments: Any) -> ChatResponse:
    """An answer that makes one tool call."""
    return calls((name, arguments))


def views(request: Any) -> tuple[str, str]:
    """All text of a request's full view, and of its compressed view."""
    assert isinstance(request, ChatRequest)
    assert request.asymspec is not None
    edited = apply_edits(request.messages, request.asymspec.edits or ())
    full, compressed = (
        "\n".join(text for message in messages for text in message.texts())
        for messages in (request.messages, edited)
    )
    return full, compressed
