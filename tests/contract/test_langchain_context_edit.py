"""AsymSpecContextEdit in LangChain's own ContextEditingMiddleware."""

from __future__ import annotations

import copy
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import ClearToolUsesEdit, ContextEditingMiddleware
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from asymspec_agents import ContextRouter, ScriptedBackend, ViewPolicy
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.summary import HistorySummary, SummaryCompressor, SummaryRouter
from asymspec_agents.trace import MemoryRecorder
from langchain_asymspec.context_edit import AsymSpecContextEdit
from tests.langchain_agents import LOG, Single, assert_paired, calling, read_log, recorded, run

RESULT = f"log of mail\n{LOG}"


def script(num_steps: int) -> list[AIMessage]:
    steps = [calling("read_log", f"c{number}", service="mail") for number in range(num_steps)]
    return [*steps, AIMessage("Request 7.")]


@pytest.mark.parametrize("how", ["invoke", "ainvoke", "stream", "astream"])
def test_calls_are_edited_and_the_state_is_not(how: str) -> None:
    model = Single(script=script(3))
    editing = ContextEditingMiddleware(edits=[AsymSpecContextEdit()])
    state = run(create_agent(model, [read_log], middleware=[editing]), "Which took 7 ms?", how=how)
    results = [message for message in state["messages"] if message.type == "tool"]
    assert [message.content for message in results] == [RESULT] * 3
    for sent in model.sent:
        assert_paired(sent.messages)
    shown = [message for message in model.sent[3].messages if message.type == "tool"]
    for before, after in zip(results, shown, strict=True):
        assert len(after.content) < 0.5 * len(RESULT)
        assert after.model_copy(update={"content": RESULT}) == before
    earlier = model.sent[2].messages
    assert model.sent[3].messages[: len(earlier)] == earlier


def test_nothing_is_edited_up_to_the_trigger() -> None:
    counted: list[int] = []

    def count(messages: Any) -> int:
        counted.append(sum(len(str(message.content)) for message in messages))
        return counted[-1]

    model = Single(script=script(2))
    edit = AsymSpecContextEdit(trigger=len(RESULT) + 1_000)
    editing = ContextEditingMiddleware(edits=[edit], token_counter=count)
    run(create_agent(model, [read_log], middleware=[editing]), "Which took 7 ms?")
    shown = [[m.content == RESULT for m in sent.messages if m.type == "tool"] for sent in model.sent]
    assert shown == [[], [True], [False, False]]
    assert len(counted) == 3


def test_beside_langchains_own_edit() -> None:
    model = Single(script=script(4))
    edits = [AsymSpecContextEdit(), ClearToolUsesEdit(trigger=1, keep=2)]
    run(create_agent(model, [read_log], middleware=[ContextEditingMiddleware(edits=edits)]), "Which?")
    shown = [str(message.content) for message in model.sent[-1].messages if message.type == "tool"]
    assert shown[:2] == ["[cleared]"] * 2
    assert all("request" in text and len(text) < len(RESULT) for text in shown[2:])


def test_an_overflow_is_langchains_own_and_a_failure_changes_nothing() -> None:
    messages = [HumanMessage("Why? " * 200)]
    tight = AsymSpecContextEdit(ContextRouter(ViewPolicy(max_verifier_tokens=20)))
    with pytest.raises(ContextOverflowError, match="over the limit of 20"):
        tight.apply(messages, count_tokens=len)

    class Broken(ContextRouter):
        def route(self, *args: Any, **kwargs: Any) -> Any:
            raise OSError("secret")

    recorder = MemoryRecorder()
    before = copy.deepcopy(messages)
    AsymSpecContextEdit(Broken(), recorder=recorder).apply(messages, count_tokens=len)
    assert messages == before
    assert [event["error"] for event in recorded(recorder, "route_failed")] == ["OSError"]


@pytest.mark.parametrize("question", ["Go on?", [{"type": "text", "text": "Go on?"}, {"type": "odd"}]])
def test_a_summary_of_the_old_turns_stands_before_the_question(question: Any) -> None:
    def ask(number: int) -> list[Any]:
        call = calling("read_log", f"c{number}", service="mail")
        return [call, ToolMessage(f"{number} {RESULT}", tool_call_id=f"c{number}", id=f"m{number}")]

    messages: list[Any] = [HumanMessage(question, id="q", additional_kwargs={"k": 1})]
    for number in range(6):
        messages += ask(number)
    given = copy.deepcopy(messages)
    router = SummaryRouter(
        SummaryCompressor(ScriptedBackend(lambda request: "All was well.")),
        HistorySummary(keep_last=2, high_water_tokens=1_000),
    )
    AsymSpecContextEdit(router).apply(messages, count_tokens=len)
    assert_paired(messages)
    assert "All was well." in messages[0].text
    assert "Go on?" in messages[0].text
    assert (messages[0].id, messages[0].additional_kwargs) == ("q", {"k": 1})
    assert isinstance(question, str) or messages[0].content[-1] == {"type": "odd"}
    assert [message.id for message in messages[1:] if message.type == "tool"] == ["m4", "m5"]
    assert len(given) > len(messages) == 5


@pytest.mark.parametrize(
    ("options", "told"),
    [({"trigger": -1}, "trigger=-1"), ({"trigger": True}, "trigger=True"), ({"router": 3}, "router must be")],
)
def test_settings_are_checked(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        AsymSpecContextEdit(**options)
