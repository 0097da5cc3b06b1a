"""AsymSpecContextMiddleware before ChatAsymSpec: both views of every call reach the backend."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    HumanInTheLoopMiddleware,
    ModelFallbackMiddleware,
    SummarizationMiddleware,
)
from langchain.agents.structured_output import ToolStrategy
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from pydantic import BaseModel

from asymspec_agents import ChatRequest, ContextRouter, ScriptedBackend, ViewPolicy
from asymspec_agents.backends.scripted import scripted_response
from asymspec_agents.compress.auto import AutoCompressor
from asymspec_agents.errors import BackendError
from asymspec_agents.messages import Message, ToolCall
from asymspec_agents.store import content_hash
from asymspec_agents.trace import MemoryRecorder
from langchain_asymspec import ChatAsymSpec
from langchain_asymspec.middleware import AsymSpecContextMiddleware
from langchain_asymspec.summarizer import AsymSpecSummarizer
from tests.langchain_agents import LOG, Single, assert_paired, read_log, recorded, run

RESULT = f"log of mail\n{LOG}"
WAYS = ("invoke", "ainvoke", "stream", "astream")


def call(identity: str, name: str = "read_log", **arguments: Any) -> ToolCall:
    function = {
        "name": name,
        "arguments": json.dumps(arguments or {"service": "mail"}, separators=(",", ":")),
    }
    return ToolCall.model_validate({"id": identity, "type": "function", "function": function})


def scripted(num_calls: int = 1, *, per_step: int = 1) -> ScriptedBackend:
    steps = [
        scripted_response("", tool_calls=[call(f"c{step}-{at}") for at in range(per_step)])
        for step in range(num_calls)
    ]
    return ScriptedBackend([*steps, "Request 7."])


def requests(backend: ScriptedBackend) -> list[ChatRequest]:
    return [request for request in backend.requests if isinstance(request, ChatRequest)]


def compressed(request: ChatRequest) -> tuple[Message, ...]:
    assert request.asymspec is not None
    return request.asymspec.compressed_messages(request.messages)


def assert_wire_paired(messages: Sequence[Message]) -> None:
    waiting: list[str | None] = []
    for message in messages:
        if message.role == "tool":
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting
            waiting = [made.id for made in message.tool_calls or ()]
    assert not waiting


@pytest.mark.parametrize("how", WAYS)
def test_both_views_of_every_call(how: str) -> None:
    backend = scripted(3, per_step=2)
    router = ContextRouter()
    agent = create_agent(
        ChatAsymSpec(backend=backend),
        [read_log],
        system_prompt="Be brief.",
        middleware=[AsymSpecContextMiddleware(router)],
    )
    state = run(agent, "Which took 7 ms?", how=how)
    assert_paired(state["messages"])
    assert sum(message.content == RESULT for message in state["messages"]) == 6
    sent = requests(backend)
    assert len(sent) == 4
    for number, request in enumerate(sent):
        assert [message.role for message in request.messages] == (
            ["system", "user"] + ["assistant", "tool", "tool"] * number
        )
        assert sum(message.content == RESULT for message in request.messages) == 2 * number
        shown = compressed(request)
        assert_wire_paired(shown)
        assert all(
            len(str(message.content)) < 0.5 * len(RESULT) for message in shown if message.role == "tool"
        )
        assert [message.tool_calls for message in shown] == [m.tool_calls for m in request.messages]
        assert request.asymspec is not None
        assert request.asymspec.tools is not None
        assert "Rule 20" in json.dumps(request.tools[0].wire())
        assert "Rule 20" not in json.dumps(request.asymspec.tools[0].wire())
    for before, after in itertools.pairwise(sent):
        assert after.messages[: len(before.messages)] == before.messages
        assert compressed(after)[: len(before.messages)] == compressed(before)
    # what the model wrote goes back to it character for character
    assert sent[1].messages[2].tool_calls == (call("c0-0"), call("c0-1"))
    assert router.store.get_text(content_hash(RESULT)) == RESULT


def test_the_models_own_router_stays_unless_another_is_given() -> None:
    own, given = MemoryRecorder(), MemoryRecorder()
    model = ChatAsymSpec(backend=ScriptedBackend(["a", "b", "c"]), router=ContextRouter(recorder=own))
    run(create_agent(model, middleware=[AsymSpecContextMiddleware()]), "?")
    assert (len(recorded(own, "view")), len(recorded(given, "view"))) == (1, 0)
    middleware = AsymSpecContextMiddleware(ContextRouter(recorder=given))
    run(create_agent(model, middleware=[middleware]), "?")
    assert (len(recorded(own, "view")), len(recorded(given, "view"))) == (1, 1)
    model.invoke("?")
    assert (len(recorded(own, "view")), len(recorded(given, "view"))) == (2, 1)


def test_the_budget_of_the_router_holds() -> None:
    """langchain-ai/langchain#34664: what overflows is counted with system prompt and tools."""
    recorder = MemoryRecorder()
    router = ContextRouter(ViewPolicy(max_verifier_tokens=5_000), recorder=recorder)
    backend = scripted(6, per_step=2)
    agent = create_agent(
        ChatAsymSpec(backend=backend),
        [read_log],
        system_prompt="Rules. " * 500,
        middleware=[AsymSpecContextMiddleware(router)],
    )
    run(agent, "Which took 7 ms?")
    views = recorded(recorder, "view")
    assert views[-1]["full_tokens"] > 100_000
    assert max(view["compressed_tokens"] for view in views) <= 5_000


def test_a_structured_answer() -> None:
    class Answer(BaseModel):
        """The answer."""

        request: int

    backend = ScriptedBackend(
        [
            scripted_response("", tool_calls=[call("c")]),
            scripted_response("", tool_calls=[call("d", "Answer", request=7)]),
        ]
    )
    agent = create_agent(
        ChatAsymSpec(backend=backend),
        [read_log],
        response_format=ToolStrategy(Answer),
        middleware=[AsymSpecContextMiddleware()],
    )
    assert run(agent, "Which took 7 ms?")["structured_response"] == Answer(request=7)
    second = requests(backend)[1]
    assert [tool.function.name for tool in second.tools if tool.function] == ["read_log", "Answer"]
    assert second.tool_choice == "required"
    assert len(str(compressed(second)[2].content)) < len(RESULT)


def test_a_fallback_to_another_model_gets_the_compressed_view() -> None:
    backend = ScriptedBackend([scripted_response("", tool_calls=[call("c")]), BackendError("down")])
    other = Single(script=[AIMessage("Request 7.")])
    middleware = [ModelFallbackMiddleware(other), AsymSpecContextMiddleware(on_other_model="compress")]
    agent = create_agent(ChatAsymSpec(backend=backend), [read_log], middleware=middleware)
    state = run(agent, "Which took 7 ms?")
    assert state["messages"][-1].text == "Request 7."
    assert state["messages"][2].content == RESULT
    assert len(other.sent[0].messages[2].content) < 0.5 * len(RESULT)


def test_after_a_summary_calls_and_results_are_whole_and_originals_are_kept() -> None:
    """langchain-ai/langchain#38352, openai/openai-agents-python#2317: servers refused calls with orphans."""
    backend = scripted(5, per_step=2)
    middleware = AsymSpecContextMiddleware()
    summarizing = SummarizationMiddleware(
        Single(script=[]),
        trigger=("messages", 7),
        keep=("messages", 3),
        trim_tokens_to_summarize=None,
        summarizer=AsymSpecSummarizer(AutoCompressor()),
    )
    agent = create_agent(ChatAsymSpec(backend=backend), [read_log], middleware=[summarizing, middleware])
    run(agent, "Which took 7 ms?")
    assert any("summary of the conversation" in m.texts()[0] for m in requests(backend)[-1].messages[:1])
    for request in requests(backend):
        assert_wire_paired(request.messages)
        assert_wire_paired(compressed(request))
    assert middleware.store.get_text(content_hash(RESULT)) == RESULT


def test_a_thread_goes_on_after_its_checkpoint_with_the_same_views() -> None:
    saver = InMemorySaver()
    config: Any = {"configurable": {"thread_id": "t"}}

    def ask(backend: ScriptedBackend, question: str) -> list[ChatRequest]:
        agent = create_agent(
            ChatAsymSpec(backend=backend),
            [read_log],
            middleware=[AsymSpecContextMiddleware()],
            checkpointer=saver,
        )
        agent.invoke({"messages": [HumanMessage(question)]}, config)
        return requests(backend)

    before = ask(scripted(2), "Which took 7 ms?")[-1]
    (after,) = ask(ScriptedBackend(["Request 44."]), "And which other?")  # as another process would
    assert after.messages[: len(before.messages)] == before.messages
    assert compressed(after)[: len(before.messages)] == compressed(before)


def test_streamed_tokens_are_the_answers() -> None:
    agent = create_agent(
        ChatAsymSpec(backend=ScriptedBackend(["One.\nTwo.\n"])), middleware=[AsymSpecContextMiddleware()]
    )
    given = {"messages": [HumanMessage("?")]}
    streamed = [message.content for message, _ in agent.stream(given, stream_mode="messages")]
    assert [text for text in streamed if text] == ["One.\n", "Two.\n"]


def test_what_is_bound_to_the_model_stays_bound() -> None:
    """headroomlabs-ai/headroom PR #3399: a model in a wrapper lost what was bound to it."""
    backend, recorder = ScriptedBackend(["a"]), MemoryRecorder()
    model: Any = ChatAsymSpec(backend=backend).bind(max_tokens=7)
    run(create_agent(model, middleware=[AsymSpecContextMiddleware(ContextRouter(recorder=recorder))]), "?")
    assert requests(backend)[0].max_tokens == 7
    assert len(recorded(recorder, "view")) == 1


def test_a_call_that_a_person_changed_goes_out_as_the_state_has_it() -> None:
    backend = scripted(1)
    agent = create_agent(
        ChatAsymSpec(backend=backend),
        [read_log],
        middleware=[HumanInTheLoopMiddleware({"read_log": True}), AsymSpecContextMiddleware()],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke({"messages": [HumanMessage("Which took 7 ms?")]}, config)
    edited = {"name": "read_log", "args": {"service": "web"}}
    decision = {"type": "edit", "edited_action": edited}
    state = agent.invoke(Command(resume={"decisions": [decision]}), config)
    assert_paired(state["messages"])
    request = requests(backend)[1]
    (sent,) = request.messages[1].tool_calls or ()
    (held,) = state["messages"][1].tool_calls
    assert sent.function is not None
    assert (sent.id, json.loads(sent.function.arguments)) == ("c0-0", held["args"])
    assert "log of web" in "".join(request.messages[2].texts())
    assert_wire_paired(compressed(request))


def test_conversations_at_once_do_not_mix() -> None:
    def answer(request: Any) -> Any:
        if len(request.messages) == 1:
            service = str(request.messages[0].content)
            return scripted_response("", tool_calls=[call(f"c-{service}", service=service)])
        return str(compressed(request)[2].content).splitlines()[0]

    agent = create_agent(
        ChatAsymSpec(backend=ScriptedBackend(answer)),
        [read_log],
        middleware=[AsymSpecContextMiddleware(ContextRouter())],
    )

    async def all_at_once() -> list[Any]:
        asked = (agent.ainvoke({"messages": [HumanMessage(f"s{n}")]}) for n in range(20))
        return await asyncio.gather(*asked)

    for number, state in enumerate(asyncio.run(all_at_once())):
        assert state["messages"][-1].text == f"log of s{number}"
