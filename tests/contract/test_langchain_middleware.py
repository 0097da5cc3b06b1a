"""AsymSpecContextMiddleware in real LangChain agents, before models that take one view."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    AgentMiddleware,
    ModelRequest,
)
from langchain.agents.structured_output import AutoStrategy, ToolStrategy
from langchain.tools import ToolRuntime
from langchain_core.exceptions import ModelInvalidRequestError
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from pydantic import BaseModel

from asymspec_agents import ContextRouter, ViewPolicy
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.store import content_hash
from asymspec_agents.trace import MemoryRecorder
from langchain_asymspec.convert import wire_messages, wire_tools
from langchain_asymspec.middleware import AsymSpecContextMiddleware
from tests.langchain_agents import LOG, Single, assert_paired, calling, read_log, recorded, run

PNG = "iVBORw0KGgo="
RESULT = f"log of mail\n{LOG}"
WAYS = ("invoke", "ainvoke", "stream", "astream")


def compressing(router: Any = None, **options: Any) -> AsymSpecContextMiddleware:
    return AsymSpecContextMiddleware(router, on_other_model="compress", **options)


def mail_script(num_steps: int = 2) -> list[AIMessage]:
    steps = [calling("read_log", f"c{number}", service="mail") for number in range(num_steps - 1)]
    return [*steps, AIMessage("Request 7.")]


@pytest.mark.parametrize("how", WAYS)
def test_the_model_reads_the_compressed_view_and_the_state_keeps_everything(how: str) -> None:
    """headroomlabs-ai/headroom PR #3399, #1285: bound tools and asynchronous calls were lost on the way."""
    model = Single(script=mail_script())
    middleware = compressing()
    agent = create_agent(model, [read_log], system_prompt="Be brief.", middleware=[middleware])
    state = run(agent, "Which request took 7 ms?", how=how)

    assert [message.type for message in state["messages"]] == ["human", "ai", "tool", "ai"]
    assert state["messages"][2].content == RESULT
    first, second = model.sent
    assert [message.type for message in second.messages] == ["system", "human", "ai", "tool"]
    assert second.messages[0].content == "Be brief."
    shown = second.messages[3]
    assert isinstance(shown, ToolMessage)
    assert len(shown.content) < 0.5 * len(RESULT)
    assert shown.model_copy(update={"content": RESULT}) == state["messages"][2]
    assert second.messages[1:3] == state["messages"][1 - 1 : 2]
    for sent in (first, second):
        (spec,) = sent.tools
        assert spec["function"]["name"] == "read_log"
        assert spec["function"]["parameters"]["required"] == ["service"]
        assert "Rule 20" not in json.dumps(spec)
    assert "Rule 20" in read_log.description
    assert middleware.store.get_text(content_hash(RESULT)) == RESULT


def test_parallel_calls_stay_with_their_results() -> None:
    """langchain-ai/langchain#38352, #34282, #33245, openai/openai-agents-python#2317: calls lost results."""
    calls = [calling("read_log", f"a{n}", f"b{n}", f"c{n}", service=f"s{n}") for n in range(5)]
    model = Single(script=[*calls, AIMessage("Done.")])
    router = ContextRouter(ViewPolicy(max_verifier_tokens=6_000, keep_last=1))
    state = run(create_agent(model, [read_log], middleware=[compressing(router)]), "Compare the logs.")
    assert_paired(state["messages"])
    assert len(model.sent) == 6
    for sent in model.sent:
        assert_paired(sent.messages)
        own = [message for message in state["messages"] if message in sent.messages]
        assert [m.id for m in sent.messages] == [m.id for m in state["messages"][: len(sent.messages)]]
        assert all(m in own for m in sent.messages if not isinstance(m, ToolMessage))


def test_a_budget_counts_the_system_prompt_and_the_tools() -> None:
    """langchain-ai/langchain#34664: neither was counted, so calls overflowed all the same."""
    rules = " ".join(f"Rule {number}: answer in {number} words." for number in range(400))
    model = Single(script=mail_script(7))
    recorder = MemoryRecorder()
    limit = 7_000
    router = ContextRouter(ViewPolicy(max_verifier_tokens=limit), recorder=recorder)
    agent = create_agent(model, [read_log], system_prompt=rules, middleware=[compressing(router)])
    run(agent, "Which request took 7 ms?")
    views = recorded(recorder, "view")
    assert len(views) == 7
    assert views[-1]["full_tokens"] > 3 * limit
    assert all(view["compressed_tokens"] <= limit for view in views)
    alone = ContextRouter().route(wire_messages(model.sent[-1].messages[1:]).messages).report.full_tokens
    assert views[-1]["compressed_tokens"] > alone + 2_000


def test_the_schema_of_a_structured_answer_is_counted() -> None:
    class Answer(BaseModel):
        """The answer."""

        request: int

    class Explained(Answer):
        pass

    Explained.__doc__ = "word " * 3_000
    wide = {"title": "Wide", "description": "word " * 3_000, "type": "object", "properties": {}}
    sizes = []
    for schema, strategy in ((Answer, ToolStrategy), (wide, ToolStrategy), (Explained, AutoStrategy)):
        recorder = MemoryRecorder()
        model = Single(script=[calling(getattr(schema, "__name__", "Wide"), "c", request=7)])
        agent = create_agent(
            model, [], response_format=strategy(schema), middleware=[compressing(recorder=recorder)]
        )
        state = run(agent, "Which request?")
        (view,) = recorded(recorder, "view")
        sizes.append(view["compressed_tokens"])
        assert [spec["function"]["name"] for spec in model.sent[0].tools] == [
            model.script[0].tool_calls[0]["name"]
        ]
        assert state["structured_response"]
    assert min(sizes[1:]) > sizes[0] + 2_500


def test_the_view_of_each_call_begins_with_the_one_before() -> None:
    """QwenLM/qwen-code#8463: a history rewritten at every turn left the prefix cache at 5 %."""
    model = Single(script=mail_script(9))
    router = ContextRouter(ViewPolicy(max_verifier_tokens=30_000))
    run(create_agent(model, [read_log], middleware=[compressing(router)]), "Which request took 7 ms?")
    breaks = 0
    for before, after in zip(model.sent, model.sent[1:], strict=False):
        common = [
            m == n for m, n in zip(before.messages, after.messages[: len(before.messages)], strict=True)
        ]
        breaks += not all(common)
    assert breaks == 0


def test_json_that_was_compressed_is_json() -> None:
    """headroomlabs-ai/headroom#3634, #3673, #3590: listings were destroyed, or valid but incomplete."""

    @tool
    def rows() -> str:
        """Lists rows."""
        return json.dumps([{"id": n, "name": f"row {n}", "ok": n != 77} for n in range(600)])

    model = Single(script=[calling("rows", "c"), AIMessage("Row 77.")])
    run(create_agent(model, [rows], middleware=[compressing()]), "Which row is not ok?")
    shown = str(model.sent[1].messages[-1].content)
    assert len(shown) < 10_000
    body = shown[shown.index("[{") :] if "[{" in shown else shown[shown.index("{") :]
    assert json.JSONDecoder().raw_decode(body)
    assert "600" in shown or "row 77" in shown


def test_images_and_files_pass_as_they_are_and_are_not_counted_as_text() -> None:
    """Images were counted as text, lost, or taken out for their base64's length.

    langchain-ai/langchain#40731, #39857, #38258, langchain-ai/deepagents#2873, #1672.
    """
    big = PNG + "A" * 400_000
    blocks: list[Any] = [
        {"type": "text", "text": RESULT},
        {"type": "image", "base64": big, "mime_type": "image/png"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{big}"}},
        {"type": "file", "base64": big, "mime_type": "application/pdf", "filename": "a.pdf"},
    ]
    asked: list[Any] = [
        {"type": "text", "text": "What does it show?"},
        {"type": "input_image", "image_url": f"data:image/png;base64,{big}"},
        {"type": "audio", "base64": big, "mime_type": "audio/wav"},
    ]

    @tool(response_format="content_and_artifact")
    def photo() -> Any:
        """Takes a photo."""
        return blocks, {"raw": b"artifact"}

    recorder = MemoryRecorder()
    model = Single(script=[calling("photo", "c"), AIMessage("A cat.")])
    agent = create_agent(model, [photo], middleware=[compressing(recorder=recorder)])
    state = agent.invoke({"messages": [HumanMessage(asked)]})
    kept, shown = state["messages"][2], model.sent[1].messages[2]
    assert model.sent[1].messages[0].content == asked
    assert kept.content == blocks
    assert isinstance(shown, ToolMessage)
    assert isinstance(shown.content, list)
    assert shown.content[1:] == blocks[1:]
    assert len(shown.text) < len(RESULT)
    assert shown.artifact == kept.artifact == {"raw": b"artifact"}
    assert recorded(recorder, "view")[-1]["full_tokens"] < 40_000


def test_checkpoints_hold_the_whole_conversation_and_a_second_question_goes_on() -> None:
    model = Single(script=[*mail_script(), AIMessage("Request 44 too.")])
    agent = create_agent(model, [read_log], middleware=[compressing()], checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    agent.invoke({"messages": [HumanMessage("Which request took 7 ms?")]}, config)
    agent.invoke({"messages": [HumanMessage("And which other?")]}, config)
    saved = agent.get_state(config).values["messages"]
    assert [message.type for message in saved] == ["human", "ai", "tool", "ai", "human", "ai"]
    assert saved[2].content == RESULT
    assert len(model.sent[2].messages[2].content) < len(RESULT)
    assert model.sent[2].messages[2] == model.sent[1].messages[2]


def test_only_the_answer_is_streamed() -> None:
    """langchain-ai/langchain#34382: tokens of a middleware's own model reached the user's stream."""
    model = Single(script=mail_script())
    agent = create_agent(model, [read_log], middleware=[compressing()])
    given = {"messages": [HumanMessage("Which request took 7 ms?")]}
    streamed = [
        message.content
        for message, _ in agent.stream(given, stream_mode="messages")
        if message.type != "tool"
    ]
    assert "".join(streamed) == "Request7."


def test_the_full_view_is_what_outer_middleware_made() -> None:
    class Dated(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
            return handler(
                request.override(
                    system_message=SystemMessage("Monday."),
                    messages=[*request.messages, HumanMessage("!")],
                )
            )

    model = Single(script=[AIMessage("Yes.")])
    run(create_agent(model, [], middleware=[Dated(), compressing()]), "Is it?")
    assert [message.content for message in model.sent[0].messages] == ["Monday.", "Is it?", "!"]


@pytest.mark.parametrize("how", WAYS)
def test_another_model_needs_a_word(how: str) -> None:
    model = Single(script=mail_script())
    agent = create_agent(model, [read_log], middleware=[AsymSpecContextMiddleware()])
    with pytest.raises(ConfigurationError, match=r"Single takes one view only.*'compress'.*'leave'") as error:
        run(agent, "Which?", how=how)
    assert isinstance(error.value, ModelInvalidRequestError)
    assert not model.sent


def test_another_model_can_be_left_alone() -> None:
    model = Single(script=mail_script())
    middleware = AsymSpecContextMiddleware(on_other_model="leave")
    run(create_agent(model, [read_log], middleware=[middleware]), "Which?")
    assert model.sent[1].messages[2].content == RESULT
    assert "Rule 20" in json.dumps(model.sent[0].tools)
    assert middleware.store.get_text(content_hash(RESULT)) == RESULT


def test_tools_are_shown_by_their_signatures_and_stay_what_they_are() -> None:
    @tool
    def search(query: str, runtime: ToolRuntime) -> str:
        """Searches."""
        return query

    search.description = "Searches. " + "It explains itself at length. " * 20
    cached = read_log.model_copy(update={"extras": {"cache_control": {"type": "ephemeral"}}})
    schema = {
        "name": "other",
        "description": "Long. " * 99,
        "parameters": {"type": "object", "properties": {}},
    }
    flat = {"name": "own", "description": "Own. " * 99, "input_schema": {"type": "object", "properties": {}}}
    builtin = {"type": "web_search", "filters": {"allowed_domains": ["x.org"]}}
    given = [cached, search, {"type": "function", "function": schema, "cache": 1}, flat, builtin]
    seen: list[Any] = []

    class Looking(AgentMiddleware[Any, Any, Any]):
        def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
            seen.extend(request.tools)
            return handler(request)

    agent = create_agent(Single(script=mail_script(1)), given, middleware=[compressing(), Looking()])
    run(agent, "Which?")
    shown = {spec.function.name: spec.wire() for spec in wire_tools(seen[:3]) if spec.function}
    assert list(shown) == ["read_log", "search", "other"]
    assert all(not spec["function"].get("description") for spec in shown.values())
    assert shown["search"]["function"]["parameters"]["properties"].keys() == {"query"}
    assert shown["read_log"]["function"]["parameters"]["required"] == ["service"]
    assert seen[0].extras == cached.extras
    assert seen[2]["cache"] == 1
    assert seen[3:] == [flat, builtin]
    assert "Rule 20" in cached.description


def test_the_callers_messages_are_not_changed() -> None:
    given = [
        HumanMessage("Which?"),
        calling("read_log", "c", service="mail"),
        ToolMessage(RESULT, tool_call_id="c"),
    ]
    before = copy.deepcopy(given)
    agent = create_agent(Single(script=[AIMessage("7")]), [read_log], middleware=[compressing()])
    agent.invoke({"messages": given})
    assert [message.content for message in given] == [message.content for message in before]
