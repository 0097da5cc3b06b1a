"""AsymSpecContextMiddleware where things go wrong, and the originals that it keeps."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import (
    ClearToolUsesEdit,
    ContextEditingMiddleware,
    SummarizationMiddleware,
)
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command

from asymspec_agents import ContextRouter, ViewPolicy
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.store import content_hash
from asymspec_agents.trace import MemoryRecorder
from langchain_asymspec.middleware import AsymSpecContextMiddleware
from tests.langchain_agents import LOG, Single, calling, read_log, recorded, run

RESULT = f"log of mail\n{LOG}"
WAYS = ("invoke", "ainvoke", "stream", "astream")


def compressing(router: Any = None, **options: Any) -> AsymSpecContextMiddleware:
    return AsymSpecContextMiddleware(router, on_other_model="compress", **options)


def mail_script(num_steps: int = 2) -> list[AIMessage]:
    steps = [calling("read_log", f"c{number}", service="mail") for number in range(num_steps - 1)]
    return [*steps, AIMessage("Request 7.")]


def test_what_others_took_out_of_the_history_is_in_the_store() -> None:
    summarizing = SummarizationMiddleware(
        Single(script=[]), trigger=("messages", 4), keep=("messages", 1), summarizer=lambda messages: "S"
    )
    clearing = ContextEditingMiddleware(edits=[ClearToolUsesEdit(trigger=1, keep=0)])
    middleware = compressing()
    model = Single(script=mail_script(4))
    agent = create_agent(model, [read_log], middleware=[summarizing, clearing, middleware])
    state = run(agent, "Which request took 7 ms?")
    assert sum(message.content == RESULT for message in state["messages"]) < 3
    assert RESULT not in [message.content for message in model.sent[-1].messages]
    assert middleware.store.get_text(content_hash(RESULT)) == RESULT


@pytest.mark.parametrize("how", WAYS)
def test_a_router_that_fails_costs_nothing_but_the_view(how: str, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ContextRouter):
        def route(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("secret content")

    recorder = MemoryRecorder()
    model = Single(script=mail_script())
    agent = create_agent(model, [read_log], middleware=[compressing(Broken(), recorder=recorder)])
    run(agent, "Which?", how=how)
    assert model.sent[1].messages[2].content == RESULT
    assert [failed["error"] for failed in recorded(recorder, "route_failed")] == ["RuntimeError"] * 2
    assert len(caplog.records) == 1
    assert "secret" not in caplog.text


def test_a_store_that_fails_costs_the_original_only() -> None:
    recorder = MemoryRecorder()
    middleware = compressing(recorder=recorder)

    def full(content: str | bytes) -> str:
        raise OSError("disk full")

    middleware.store.put = full  # type: ignore[method-assign]
    state = run(create_agent(Single(script=mail_script()), [read_log], middleware=[middleware]), "Which?")
    assert state["messages"][2].content == RESULT
    assert recorded(recorder, "store_failed")[0]["error"] == "OSError"


def test_results_inside_a_command_are_kept() -> None:
    @tool
    def note() -> Any:
        """Takes a note."""
        messages = [ToolMessage("noted: " + RESULT, tool_call_id="c")]
        return Command(update={"messages": messages})

    middleware = compressing()
    model = Single(script=[calling("note", "c"), AIMessage("Done.")])
    run(create_agent(model, [note], middleware=[middleware]), "Note it.")
    assert middleware.store.get_text(content_hash("noted: " + RESULT)) is not None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"on_other_model": "shorten"}, "on_other_model='shorten'"),
        ({"router": object()}, "router must be a ContextRouter"),
    ],
)
def test_settings_are_checked(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        AsymSpecContextMiddleware(**options)


def test_an_overflow_is_langchains_own() -> None:
    router = ContextRouter(ViewPolicy(max_verifier_tokens=50))
    agent = create_agent(Single(script=[]), [read_log], middleware=[compressing(router)])
    with pytest.raises(ContextOverflowError, match="over the limit of 50"):
        run(agent, "Why? " * 100)
