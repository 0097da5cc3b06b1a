"""What a call of ChatAsymSpec asks its backend, and what it makes of tools, choices and parameters."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core.exceptions import ContextOverflowError as LangChainsOwn
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, Field

from asymspec_agents import AsymSpecOptions, ChatRequest, ContextRouter, RoutedContext, ScriptedBackend
from asymspec_agents.backends import Capabilities
from asymspec_agents.errors import ConfigurationError, ContextOverflowError
from asymspec_agents.tokens import EstimateCounter
from asymspec_agents.trace import MemoryRecorder
from asymspec_agents.views.prompt_size import prompt_tokens
from langchain_asymspec import ChatAsymSpec

LOG = "\n".join(f"12:{n // 60 % 60:02}:{n % 60:02} request {n} served in {n % 37} ms" for n in range(2_000))
HISTORY: list[BaseMessage] = [
    SystemMessage("Be brief."),
    HumanMessage("How long did request 1234 take?", id="h1"),
    AIMessage("", tool_calls=[{"name": "read_log", "args": {"day": "Ü"}, "id": "c1"}], id="a1"),
    ToolMessage(LOG, tool_call_id="c1", artifact={"rows": 2_000}, id="t1"),
]


@tool
def weather(city: str, days: int = 1) -> str:
    """The weather of a city."""
    return f"{city}: {days}"


class Person(BaseModel):
    """A person."""

    name: str = Field(description="Full name.")


def read_log(day: str) -> str:
    """Reads the log of a day."""
    return day


@pytest.fixture
def backend() -> ScriptedBackend:
    return ScriptedBackend(lambda request: "The answer.", model="v", drafter="d")


def asked(backend: ScriptedBackend) -> ChatRequest:
    request = backend.requests[-1]
    assert isinstance(request, ChatRequest)
    return request


def test_both_views_are_sent_and_nothing_of_the_callers_is_changed(backend: ScriptedBackend) -> None:
    before = [message.model_dump() for message in HISTORY]
    ChatAsymSpec(backend=backend).invoke(HISTORY)
    assert [message.model_dump() for message in HISTORY] == before
    request = asked(backend)
    assert request.messages[3].texts() == (LOG,)
    assert request.asymspec is not None
    compressed = request.asymspec.compressed_messages(request.messages)
    assert [message.role for message in compressed] == ["system", "user", "assistant", "tool"]
    assert len(compressed[3].texts()[0]) < len(LOG) / 2
    assert "request 1234 served in 13 ms" in compressed[3].texts()[0]
    assert compressed[:3] == request.messages[:3]
    assert compressed[3].tool_call_id == "c1"
    (call,) = request.messages[2].tool_calls or ()
    assert call.function is not None
    assert call.function.arguments == '{"day": "Ü"}'


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("any", "required"),
        ("required", "required"),
        (True, "required"),
        ({"type": "any"}, "required"),
        ("auto", "auto"),
        ({"type": "auto"}, "auto"),
        ("none", "none"),
        (False, None),
        (None, None),
        ("weather", {"type": "function", "function": {"name": "weather"}}),
        ({"type": "tool", "name": "Person"}, {"type": "function", "function": {"name": "Person"}}),
        (
            {"type": "function", "function": {"name": "read_log"}},
            {"type": "function", "function": {"name": "read_log"}},
        ),
    ],
)
def test_every_way_of_choosing_a_tool(backend: ScriptedBackend, choice: Any, sent: Any) -> None:
    tools = [weather, Person, read_log]
    for model in (
        ChatAsymSpec(backend=backend).bind_tools(tools, tool_choice=choice),
        ChatAsymSpec(backend=backend).bind(tools=tools, tool_choice=choice),
    ):
        model.invoke("Hello")
        request = asked(backend)
        assert request.tool_choice == sent
        names = [it.function.name for it in request.tools if it.function is not None]
        assert names == ["weather", "Person", "read_log"]


@pytest.mark.parametrize(
    ("tools", "choice", "said"),
    [
        ([weather], "wether", "tool_choice='wether' is none of the tools: weather"),
        ([], "any", "there are no tools"),
        ([weather], 7, "must be a name"),
    ],
)
def test_a_choice_that_no_tool_fits_is_refused(
    backend: ScriptedBackend, tools: list[Any], choice: Any, said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ChatAsymSpec(backend=backend).bind_tools(tools, tool_choice=choice)


@pytest.mark.parametrize("choice", ["auto", "none", None])
def test_no_tools_are_no_tools(backend: ScriptedBackend, choice: str | None) -> None:
    """vLLM refuses `tools: []`, and a choice without tools."""
    ChatAsymSpec(backend=backend).bind_tools([], tool_choice=choice, parallel_tool_calls=False).invoke("Hi")
    request = asked(backend)
    assert (request.tools, request.tool_choice, request.parallel_tool_calls) == ((), None, None)


def test_strict_and_parallel_calls_are_passed_on(backend: ScriptedBackend) -> None:
    ChatAsymSpec(backend=backend).bind_tools([weather], strict=True, parallel_tool_calls=False).invoke("Hi")
    request = asked(backend)
    assert request.parallel_tool_calls is False
    (spec,) = request.tools
    assert spec.wire()["function"]["strict"] is True
    assert spec.wire()["function"]["parameters"]["additionalProperties"] is False


def test_a_calls_arguments_outrank_the_models_one_by_one(backend: ScriptedBackend) -> None:
    model = ChatAsymSpec(
        backend=backend,
        max_tokens=50,
        top_p=0.5,
        seed=1,
        stop=["A"],
        cache_salt="s",
        chat_template_kwargs={"enable_thinking": False},
        extra_body={"reasoning_effort": "low", "user": "me"},
        asymspec={"mode": "scaled", "num_draft_tokens": 3},
    )
    model.invoke("Hello")
    request = asked(backend)
    assert (request.max_tokens, request.top_p, request.seed, request.stop) == (50, 0.5, 1, ("A",))
    assert (request.cache_salt, request.chat_template_kwargs) == ("s", {"enable_thinking": False})
    assert request.extra == {"reasoning_effort": "low", "user": "me"}
    assert request.asymspec is not None
    assert (request.asymspec.mode, request.asymspec.num_draft_tokens) == ("scaled", 3)

    bound = model.bind(max_completion_tokens=7, asymspec=AsymSpecOptions.paper(), extra_body={"user": "you"})
    bound.invoke("Hello", stop=["", "B"], top_p=1.0, logprobs=False, session_id="t")
    request = asked(backend)
    assert (request.max_tokens, request.top_p, request.seed, request.stop) == (7, 1.0, 1, ("B",))
    assert request.extra == {"reasoning_effort": "low", "user": "you", "logprobs": False}
    assert request.session_id == "t"
    assert request.asymspec is not None
    assert (request.asymspec.mode, request.asymspec.bonus) == (None, "verifier")


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"prompt": "x"}, "prompt cannot be passed"),
        ({"stream_options": {}}, "stream_options cannot be passed"),
        ({"extra_body": {"stream": True}}, "stream cannot be passed"),
        ({"extra_body": [1]}, "extra_body must be a mapping"),
        ({"asymspec": {"beta": 9}}, "beta"),
        ({"max_tokens": 0}, "max_tokens=0"),
        ({"temperature": -1}, "temperature=-1"),
    ],
)
def test_bad_arguments_are_refused_by_name(
    backend: ScriptedBackend, kwargs: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigurationError, match=said):
        ChatAsymSpec(backend=backend).invoke("Hello", **kwargs)
    assert not backend.requests


class _Failing(ContextRouter):
    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    def route(self, *args: Any, **kwargs: Any) -> RoutedContext:
        raise self._error


def test_a_failing_router_costs_no_call(backend: ScriptedBackend, caplog: pytest.LogCaptureFixture) -> None:
    recorder = MemoryRecorder()
    router = _Failing(RuntimeError("secret text"))
    model = ChatAsymSpec(backend=backend, router=router, recorder=recorder, asymspec={"mode": "scaled"})
    assert model.invoke(HISTORY).content == model.invoke(HISTORY).content == "The answer."
    request = asked(backend)
    assert request.asymspec is not None
    assert (request.asymspec.mode, request.asymspec.edits) == ("scaled", ())
    assert request.messages[3].texts() == (LOG,)
    assert [event.event for event in recorder.events] == ["route_failed"] * 2
    assert len(caplog.records) == 1
    assert "secret text" not in caplog.text


def test_a_router_that_finds_a_view_too_long_is_heard(backend: ScriptedBackend) -> None:
    model = ChatAsymSpec(backend=backend, router=_Failing(ContextOverflowError("full", 9, 5, "advice")))
    with pytest.raises(ContextOverflowError) as caught:
        model.invoke(HISTORY)
    assert isinstance(caught.value, LangChainsOwn)
    assert (caught.value.view, caught.value.num_tokens, caught.value.limit) == ("full", 9, 5)
    assert not caught.value.is_retryable


def test_a_router_may_be_anything_that_routes(backend: ScriptedBackend) -> None:
    class WithoutAsync:
        def route(self, messages: Any, tools: Any = None) -> RoutedContext:
            return ContextRouter().route(messages, tools)

    model = ChatAsymSpec(backend=backend, router=WithoutAsync())
    asyncio.run(model.ainvoke(HISTORY))
    assert asked(backend).asymspec is not None
    assert asked(backend).asymspec.edits  # type: ignore[union-attr]


class _Narrow(ScriptedBackend):
    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("v", "d", ("asymspec",), 3_000, 50_000)


def test_the_default_router_keeps_both_views_within_the_backends_limits() -> None:
    """huggingface/smolagents #1719, #1930 and #2164, langchain-ai/langchain #34664: long tool results, and
    the system prompt and tools that nobody counted, pushed a request past the context limit.
    """
    backend = _Narrow(lambda request: "Done.")

    def tool_of(number: int) -> Callable[[str], str]:
        def described(text: str) -> str:
            return text

        described.__name__ = f"tool_{number}"
        described.__doc__ = f"Tool {number}. " + "It does one thing, and does it well. " * 20
        return described

    turns: list[BaseMessage] = []
    for number in range(12):
        call = {"name": "read_log", "args": {"day": str(number)}, "id": f"c{number}"}
        turns += [AIMessage("", tool_calls=[call]), ToolMessage(LOG[:30_000], tool_call_id=f"c{number}")]
    model = ChatAsymSpec(backend=backend, max_tokens=200).bind_tools([tool_of(n) for n in range(5)])
    model.invoke([SystemMessage("Be brief. " * 60), HumanMessage("Which request was slow?"), *turns])
    request = asked(backend)
    assert request.asymspec is not None
    count = EstimateCounter().count
    compressed = request.asymspec.compressed_messages(request.messages)
    tools = request.asymspec.tools or request.tools
    assert prompt_tokens(compressed, tools, count) <= 3_000 - 200
    assert prompt_tokens(request.messages, request.tools, count) <= 50_000 - 200


def test_what_no_view_can_hold_is_langchains_own_error() -> None:
    model = ChatAsymSpec(backend=_Narrow(lambda request: "Done."), max_tokens=200)
    with pytest.raises(LangChainsOwn, match="compressed view"):
        model.invoke([SystemMessage("word " * 20_000), HumanMessage("Hello")])
