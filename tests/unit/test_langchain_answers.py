"""Answers as LangChain messages: whole, streamed and by events, all the same; nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import functools
import operator
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.exceptions import OutputParserException
from langchain_core.messages import AIMessage, AIMessageChunk, message_chunk_to_message
from pydantic import BaseModel
from typing_extensions import TypedDict

from asymspec_agents import ChatResponse, ScriptedBackend
from asymspec_agents.backends import Backend, Capabilities, ChatDelta, Usage
from asymspec_agents.backends.request import AnyRequest
from asymspec_agents.errors import BackendError, ConfigurationError
from asymspec_agents.messages import FunctionCall, ToolCall
from asymspec_agents.protocol import AsymSpecReport
from langchain_asymspec import ChatAsymSpec

USAGE = Usage(100, 20, 60)
REPORT = AsymSpecReport(drafted=8, accepted=6, accepted_per_position=(4, 2), mean_divergence=0.125)
BROKEN = ('{"city": "Par', '{"city": "Paris"', "[1]", "3", '"text"', "nonsense", '{"a": 1}}', "]", "null")


class Steps(Backend):
    """Answers every request with these steps."""

    def __init__(self, steps: Sequence[ChatDelta]) -> None:
        self.steps = steps

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(verifier="v", drafter="d", modes=("asymspec",))

    def stream(self, request: AnyRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        yield from self.steps


def call(arguments: Any, identity: str | None = "c1", name: str = "weather") -> ToolCall:
    return ToolCall(id=identity, type="function", function=FunctionCall(name=name, arguments=arguments))


def ended(*steps: ChatDelta, finish_reason: Any = "stop") -> Steps:
    return Steps([*steps, ChatDelta(finish_reason=finish_reason, usage=USAGE, report=REPORT)])


def added(chunks: Sequence[Any]) -> AIMessageChunk:
    total: AIMessageChunk = functools.reduce(operator.add, chunks)
    return total


async def _astreamed(model: ChatAsymSpec) -> AIMessageChunk:
    return added([chunk async for chunk in model.astream("Hello")])


def every_way(backend: Backend) -> list[AIMessage]:
    """The same answer, by every way that LangChain has of asking."""
    model = ChatAsymSpec(backend=backend)
    streaming = ChatAsymSpec(backend=backend, streaming=True)
    return [
        model.invoke("Hello"),
        asyncio.run(model.ainvoke("Hello")),
        streaming.invoke("Hello"),
        asyncio.run(streaming.ainvoke("Hello")),
        added(list(model.stream("Hello"))),
        asyncio.run(_astreamed(model)),
    ]


TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
CALLS = st.builds(
    call,
    st.sampled_from(['{"city": "Paris"}', '{"a": "x\ny"}', "", None, {"city": "Ü"}, *BROKEN]),
    st.sampled_from(["c1", "c2", "", None]),
)
STEPS = st.lists(
    st.builds(ChatDelta, content=TEXTS, reasoning=TEXTS, tool_calls=st.lists(CALLS, max_size=2).map(tuple)),
    max_size=5,
)


@given(STEPS)
def test_chunks_add_up_to_the_whole_message(steps: list[ChatDelta]) -> None:
    backend = ended(*steps)
    whole = ChatAsymSpec(backend=backend).invoke("Hello")
    streamed = added(list(ChatAsymSpec(backend=backend).stream("Hello")))
    assert streamed.content == whole.content == "".join(step.content for step in steps)
    assert streamed.usage_metadata == whole.usage_metadata
    assert streamed.response_metadata == whole.response_metadata
    assert [(it["name"], it["args"]) for it in streamed.tool_calls] == [
        (it["name"], it["args"]) for it in whole.tool_calls
    ]
    assert len(streamed.invalid_tool_calls) == len(whole.invalid_tool_calls)
    assert streamed.additional_kwargs.get("reasoning_content", "") == "".join(it.reasoning for it in steps)
    ids = [it["id"] for it in (*whole.tool_calls, *whole.invalid_tool_calls)]
    assert all(ids)
    assert len(set(ids)) == len(ids)


def test_usage_report_and_names_come_once() -> None:
    """huggingface/smolagents #1488: usage was summed over the steps of a stream; #1436: steps without any."""
    backend = ended(*(ChatDelta(content=f"word {number} ") for number in range(9)))
    for message in every_way(backend):
        assert message.usage_metadata == {
            "input_tokens": 100,
            "output_tokens": 20,
            "total_tokens": 120,
            "input_token_details": {"cache_read": 60},
        }
        assert message.response_metadata["model_name"] == "v"
        assert message.response_metadata["model_provider"] == "asymspec"
        assert message.response_metadata["finish_reason"] == "stop"
        assert message.response_metadata["asymspec"] == REPORT.model_dump(mode="json")


def test_reasoning_is_kept_apart_from_the_answer() -> None:
    """langchain-ai/langchain #35059 and #37960: the reasoning of vLLM's answers was dropped."""
    backend = ended(ChatDelta(reasoning="Let me "), ChatDelta(reasoning="think."), ChatDelta(content="42"))
    for message in every_way(backend):
        assert message.text == "42"
        assert message.additional_kwargs["reasoning_content"] == "Let me think."
        blocks = message.content_blocks
        assert blocks[0] == {"type": "reasoning", "reasoning": "Let me think."}
        assert blocks[1]["type"] == "text"
    v1 = ChatAsymSpec(backend=backend, output_version="v1")
    for message in (v1.invoke("Hello"), added(list(v1.stream("Hello")))):
        kinds = [(block["type"], block.get(block["type"])) for block in message.content_blocks]
        assert kinds == [("reasoning", "Let me think."), ("text", "42")]
        assert message.content == message.content_blocks
    events = ChatAsymSpec(backend=backend).stream_events("Hello", version="v3")
    list(events)
    kinds = [(block["type"], block.get(block["type"])) for block in events.output.content_blocks]
    assert kinds == [("reasoning", "Let me think."), ("text", "42")]


@pytest.mark.parametrize("arguments", BROKEN)
def test_calls_that_are_none_are_kept_and_never_run(arguments: str) -> None:
    """LangChain completes broken JSON when it adds chunks up, and a call that was cut off would be run."""
    backend = ended(ChatDelta(tool_calls=(call(arguments), call('{"city": "Rome"}', "c2"))))
    for message in every_way(backend):
        assert [(it["id"], it["args"]) for it in message.tool_calls] == [("c2", {"city": "Rome"})]
        (invalid,) = message.invalid_tool_calls
        assert (invalid["id"], invalid["name"]) == ("c1", "weather")
        assert (invalid["args"], invalid["error"]) == (arguments, "the arguments are not a JSON object")
        written = message.additional_kwargs["tool_calls"]
        assert [it["function"]["arguments"] for it in written] == [arguments, '{"city": "Rome"}']
    events = ChatAsymSpec(backend=backend).stream_events("Hello", version="v3")
    list(events)
    assert [it["id"] for it in events.output.tool_calls] == ["c2"]


def test_calls_without_an_id_or_with_the_same_one_can_be_told_apart() -> None:
    calls = (call("{}", "c1"), call("{}", "c1"), call("{}", ""), call("{}", None))
    for message in every_way(ended(ChatDelta(tool_calls=calls[:2]), ChatDelta(tool_calls=calls[2:]))):
        ids = [it["id"] for it in message.tool_calls]
        assert ids[0] == "c1"
        assert len(set(ids)) == 4
        assert all(ids)


def test_a_stream_that_ends_early_is_an_error() -> None:
    model = ChatAsymSpec(backend=Steps([ChatDelta(content="half")]))
    for ask in (
        lambda: list(model.stream("Hello")),
        lambda: model.invoke("Hello"),
        lambda: asyncio.run(_astreamed(model)),
    ):
        with pytest.raises(BackendError, match="finish_reason"):
            ask()


def test_an_answer_without_a_report_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    model = ChatAsymSpec(backend=Steps([ChatDelta(content="Hi", finish_reason="stop", usage=USAGE)]))
    assert "asymspec" not in model.invoke("Hello").response_metadata
    list(model.stream("Hello"))
    assert [record.message for record in caplog.records] == [
        "an answer has no AsymSpec report: Steps answered from the full context, without AsymSpec "
        "(logged once)"
    ]


class Joke(BaseModel):
    """A joke."""

    setup: str
    punchline: str | None = None


class JokeDict(TypedDict):
    """A joke."""

    setup: str


PLAIN = {"type": "object", "properties": {"setup": {"type": "string"}}, "required": ["setup"]}
METHODS = ("json_schema", "function_calling", "json_mode")


@pytest.mark.parametrize("schema", [Joke, JokeDict, Joke.model_json_schema(), PLAIN], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_structured_answers(schema: Any, method: Any) -> None:
    if schema is PLAIN and method == "function_calling":
        pytest.skip("a tool needs a name, LangChain takes it from the schema's title")

    def reply(request: Any) -> ChatResponse:
        calls = (call('{"setup": "Why?"}', name=request.tools[0].function.name),) if request.tools else ()
        return ChatResponse("" if calls else '{"setup":\n"Why?"}', calls, "stop", USAGE, REPORT)

    backend = ScriptedBackend(reply)
    model = ChatAsymSpec(backend=backend).with_structured_output(schema, method=method)
    wanted = Joke(setup="Why?") if schema is Joke else {"setup": "Why?"}
    assert model.invoke("Tell one.") == wanted
    assert list(model.stream("Tell one."))[-1] == wanted
    raw = ChatAsymSpec(backend=backend).with_structured_output(schema, method=method, include_raw=True)
    answer = raw.invoke("Tell one.")
    assert answer["parsed"] == wanted
    assert answer["parsing_error"] is None
    assert answer["raw"].usage_metadata["output_tokens"] == 20


@pytest.mark.parametrize("method", METHODS)
def test_half_a_structured_answer_is_no_answer(method: Any) -> None:
    """LangChain's JSON parsers complete what was cut off at the length limit."""
    half = '{"setup": "Why did the'
    calls = (call(half, name="Joke"),) if method == "function_calling" else ()
    steps = ended(
        ChatDelta(content="" if calls else half), ChatDelta(tool_calls=calls), finish_reason="length"
    )
    model = ChatAsymSpec(backend=steps)
    for schema in (Joke, Joke.model_json_schema()):
        with pytest.raises(OutputParserException, match="max_tokens"):
            model.with_structured_output(schema, method=method).invoke("Tell one.")
        with pytest.raises(OutputParserException, match="max_tokens"):
            list(model.with_structured_output(schema, method=method).stream("Tell one."))
        raw = model.with_structured_output(schema, method=method, include_raw=True).invoke("Tell one.")
        assert raw["parsed"] is None
        assert isinstance(raw["parsing_error"], OutputParserException)
        assert raw["raw"].response_metadata["finish_reason"] == "length"


def test_a_forced_call_that_was_not_made_is_an_error() -> None:
    model = ChatAsymSpec(backend=ended(ChatDelta(content="No.")))
    with pytest.raises(OutputParserException, match="no valid call"):
        model.with_structured_output(Joke, method="function_calling").invoke("Tell one.")


@pytest.mark.parametrize("half", ['{"setup": "Why did the', '{"', "{", '{"setup": "Why?"'])
@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
def test_json_without_an_end_is_no_answer_however_it_ended(half: str, method: Any) -> None:
    for schema in (Joke, JokeDict, PLAIN):
        model = ChatAsymSpec(backend=ended(ChatDelta(content=half)))
        with pytest.raises(OutputParserException):
            model.with_structured_output(schema, method=method).invoke("Tell one.")
        with pytest.raises(OutputParserException):
            list(model.with_structured_output(schema, method=method).stream("Tell one."))
        raw = model.with_structured_output(schema, method=method, include_raw=True).invoke("Tell one.")
        assert raw["parsed"] is None
        assert isinstance(raw["parsing_error"], OutputParserException)


def test_a_streamed_message_becomes_a_plain_one() -> None:
    backend = ended(ChatDelta(tool_calls=(call('{"city": "Par'),)))
    streamed = added(list(ChatAsymSpec(backend=backend).stream("Hello")))
    message = message_chunk_to_message(streamed)
    assert type(message) is AIMessage
    assert message.invalid_tool_calls == streamed.invalid_tool_calls
    assert message.tool_calls == []


def test_structured_output_sets_its_tools_itself() -> None:
    with pytest.raises(ConfigurationError, match="tools cannot be given to with_structured_output"):
        ChatAsymSpec(backend=ended()).with_structured_output(Joke, tools=[Joke])


def test_an_unknown_method_is_refused() -> None:
    model = ChatAsymSpec(backend=ended())
    with pytest.raises(ConfigurationError, match="method='xml'"):
        model.with_structured_output(Joke, method="xml")  # type: ignore[arg-type]
