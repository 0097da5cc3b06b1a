"""A LangChain agent of seven model calls on the real pair: both views, pairing and prefix reuse in its trace.

Uses the cache (ASYMSPEC_CACHE or the user's); fetches nothing. Models this small do not choose six calls by
themselves: the agent forces each one by `tool_choice`, and what they write in it is theirs.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

pytest.importorskip("langchain")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver

from asymspec_agents import ChatRequest, ContextRouter, LocalBackend, ViewPolicy, weights
from asymspec_agents.trace import MemoryRecorder, measure_requests
from langchain_asymspec import ChatAsymSpec
from langchain_asymspec.middleware import AsymSpecContextMiddleware
from tests.langchain_agents import assert_paired, recorded
from tests.presets import preset_folder

pytestmark = pytest.mark.full

NUM_CALLS = 6
RULES = " ".join(f"Shelf {n} holds parts of width {n * 7 % 31} mm in lots of {n}." for n in range(1, 9))


@tool
def read_page(page: int) -> str:
    """Reads a page."""
    lines = [f"part P-{page}{line:02}: {line * 7 % 90} in stock, shelf {line}" for line in range(9)]
    return f"Page {page} of the list\n" + "\n".join(lines)


read_page.description = f"Reads one page of the list of parts. {RULES}"


class SixCalls(AgentMiddleware[Any, Any, Any]):
    """Has the model call the tool six times, and answer then."""

    def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
        num_results = sum(isinstance(message, ToolMessage) for message in request.messages)
        return handler(request.override(tool_choice="read_page" if num_results < NUM_CALLS else "none"))


class Listening(LocalBackend):
    """Keeps what it is asked."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.requests: list[ChatRequest] = []

    def generate(self, request: ChatRequest) -> Any:
        self.requests.append(request)
        return super().generate(request)


def test_an_agents_run() -> None:
    for name in (weights.DEFAULT_PAIR.verifier, weights.DEFAULT_PAIR.drafter):
        preset_folder(name)
    recorder = MemoryRecorder()
    backend = Listening.load(recorder=recorder)
    assert isinstance(backend, Listening)
    policy = ViewPolicy(first_sight_tokens=60, min_part_tokens=30, ratio=0.3)
    router = ContextRouter(policy, prompt_counter=backend.prompt_counter, recorder=recorder)
    agent = create_agent(
        ChatAsymSpec(backend=backend, max_tokens=30),
        [read_page],
        system_prompt="Answer with the tool's help.",
        middleware=[SixCalls(), AsymSpecContextMiddleware(router)],
        checkpointer=InMemorySaver(),
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    state = agent.invoke({"messages": [HumanMessage("How many of P-307?")]}, config)

    messages = state["messages"]
    assert_paired(messages)
    answers = [message for message in messages if isinstance(message, AIMessage)]
    assert len(answers) == len(backend.requests) == NUM_CALLS + 1
    assert [len(answer.tool_calls) for answer in answers] == [1] * NUM_CALLS + [0]
    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert all(result.text.startswith("Page ") for result in results)  # valid arguments, and nothing cut

    views = recorded(recorder, "view")
    traced = {item.request_id: item.metrics for item in measure_requests(recorder.events)}
    assert len(views) == len(traced) == NUM_CALLS + 1
    reports = [answer.response_metadata["asymspec"] for answer in answers]
    for number, (request, report) in enumerate(zip(backend.requests, reports, strict=True)):
        assert request.asymspec is not None
        shown = request.asymspec.compressed_messages(request.messages)
        assert [message.role for message in shown] == ["system", "user"] + ["assistant", "tool"] * number
        assert [message.tool_calls for message in shown] == [m.tool_calls for m in request.messages]
        assert [message.content for message in request.messages if message.role == "tool"] == [
            result.content for result in results[:number]
        ]
        assert report["mode"] == "asymspec"
        assert report["verifier_prompt_tokens"] < 0.7 * report["drafter_prompt_tokens"]
        metrics = traced[request.request_id]
        assert metrics.prompt_tokens.verifier == report["verifier_prompt_tokens"]
        assert metrics.prompt_tokens.drafter == report["drafter_prompt_tokens"]
    for before, after in itertools.pairwise(reports[:-1]):  # the last one's prompt has no tools
        for role in ("verifier", "drafter"):
            assert after["cached_tokens"][role] >= before[f"{role}_prompt_tokens"] - 1
    usages = [answer.usage_metadata for answer in answers]
    assert [usage["input_tokens"] for usage in usages if usage] == [
        report["verifier_prompt_tokens"] for report in reports
    ]
    assert agent.get_state(config).values["messages"] == messages
    backend.engine.prefixes.clear()
