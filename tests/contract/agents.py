"""Tools, scripted models and shorthands for the tests of real smolagents agents."""

import json
from types import SimpleNamespace
from typing import ClassVar

import pytest
from smolagents import Tool, ToolCallingAgent
from smolagents.models import ChatMessage, ChatMessageStreamDelta, Model, TokenUsage

from asymspec_agents.backends import ChatResponse, Usage
from asymspec_agents.backends.scripted import ScriptedBackend
from asymspec_agents.messages import ToolCall
from smolagents_asymspec import AsymSpecModel, RoutedModel

STEP_STOP = ("Observation:", "Calling tools:")
NUM_LINES = 900
NEEDLE = "line 450: the gate code is 7319"


class Report(Tool):
    name = "report"
    description = "Reads a report. " + "It has many pages, and this sentence explains them at length. " * 20
    inputs: ClassVar = {
        "topic": {"type": "string", "description": "What the report is about, as one lowercase word"},
        "page": {"type": "integer", "description": "The page", "nullable": True},
    }
    output_type = "string"

    def forward(self, topic: str, page: int | None = None) -> str:
        lines = [f"line {number}: nothing to see about {topic}" for number in range(NUM_LINES)]
        lines[450] = NEEDLE
        return "\n".join(lines)


class Echo(Tool):
    name = "echo"
    description = "Says it again."
    inputs: ClassVar = {"text": {"type": "string", "description": "What to say"}}
    output_type = "string"

    def forward(self, text: str) -> str:
        return f"echo of {text}"


def call(name: str, identity: str | None = "", **arguments: object) -> ToolCall:
    return ToolCall(id=identity, type="function", function={"name": name, "arguments": json.dumps(arguments)})


def answer(content: str = "", *calls: ToolCall) -> ChatResponse:
    return ChatResponse(content, calls, "tool_calls" if calls else "stop", Usage(100, 7), None)


def text_call(name: str, **arguments: object) -> str:
    return json.dumps({"name": name, "arguments": arguments})


FINAL = text_call("final_answer", answer="done")


class Inner(Model):
    """A scripted smolagents model that cannot stream."""

    def __init__(self, replies, **kwargs):
        super().__init__(model_id="inner", **kwargs)
        self.replies = list(replies)
        self.calls = []

    def generate(
        self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **kwargs
    ):
        self.calls.append(
            {"messages": messages, "stop": stop_sequences, "response_format": response_format,
             "tools": tools_to_call_from, **kwargs}
        )  # fmt: skip
        return ChatMessage(
            role="assistant",
            content=self.replies.pop(0),
            token_usage=TokenUsage(input_tokens=100, output_tokens=7),
        )


class StreamingInner(Inner):
    def generate_stream(
        self, messages, stop_sequences=None, response_format=None, tools_to_call_from=None, **kwargs
    ):
        message = self.generate(messages, stop_sequences, response_format, tools_to_call_from, **kwargs)
        for character in message.content:
            yield ChatMessageStreamDelta(content=character)
        yield ChatMessageStreamDelta(content="", token_usage=message.token_usage)


class Recorded:
    """A model of either kind over a script, and the compressed views its verifier or inner model got."""

    def __init__(self, kind: str, replies, router=None, **kwargs) -> None:
        self.backend = ScriptedBackend(replies) if kind == "asymspec" else None
        self.inner = StreamingInner(replies, **kwargs) if kind == "routed" else None
        self.model = (
            AsymSpecModel(self.backend, router, **kwargs)
            if self.backend is not None
            else RoutedModel(self.inner, router)
        )

    @property
    def views(self) -> list[list[str]]:
        """Per call, the texts of the compressed view, one for each message."""
        if self.backend is not None:
            return [
                ["\n".join(m.texts()) for m in r.asymspec.compressed_messages(r.messages)]
                for r in self.backend.requests
            ]
        return [
            ["\n".join(p["text"] for p in m.content if p["type"] == "text") for m in c["messages"]]
            for c in self.inner.calls
        ]

    @property
    def stops(self) -> list[tuple[str, ...]]:
        if self.backend is not None:
            return [request.stop for request in self.backend.requests]
        return [tuple(c["stop"] or ()) for c in self.inner.calls]

    @property
    def has_tools(self) -> list[bool]:
        if self.backend is not None:
            return [bool(request.tools) for request in self.backend.requests]
        return [bool(c["tools"]) for c in self.inner.calls]


def agent(model, agent_class=ToolCallingAgent, tools=None, **more):
    return agent_class(tools or [Report(), Echo()], model, verbosity_level=-1, **more)


both_kinds = pytest.mark.parametrize("kind", ["asymspec", "routed"])
both_ways = pytest.mark.parametrize("stream", [False, True])


class Custom(Model):
    """A model of the user's own, with its own attributes and no stream."""

    def __init__(self, **kwargs):
        super().__init__(model_id="custom", tool_name_key="tool", tool_arguments_key="args", **kwargs)
        self.is_clean = False
        self.seen = None

    def generate(self, messages, **kwargs):
        self.seen = (messages, kwargs)
        return ChatMessage(role="assistant", content=FINAL)

    def cleanup(self):
        self.is_clean = True


class FakeClient:
    """The client of an OpenAI server, up to where the wire begins."""

    def __init__(self):
        self.bodies = []
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    def create(self, **body):
        self.bodies.append(body)
        message = SimpleNamespace(role="assistant", content=FINAL, tool_calls=None)
        usage = SimpleNamespace(prompt_tokens=3, completion_tokens=2)
        return SimpleNamespace(choices=[SimpleNamespace(message=message)], usage=usage)
