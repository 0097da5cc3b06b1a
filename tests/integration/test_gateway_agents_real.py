"""Agents that know nothing of this package, on the real pair: a plain OpenAI client through the gateway.

A smolagents agent and a LangChain agent, each of six tool calls and an answer; only their base_url is the
gateway's. Models this small do not choose six calls by themselves: the calls are forced by `tool_choice`, and
what is written in them is the model's. Uses the cache (ASYMSPEC_CACHE or the user's); fetches nothing.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from typing import Any, ClassVar

import httpx
import pytest

pytest.importorskip("langchain_openai")
pytest.importorskip("smolagents")
pytest.importorskip("starlette")

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from smolagents import OpenAIModel, Tool, ToolCallingAgent
from smolagents.agents import EMPTY_PROMPT_TEMPLATES

from asymspec_agents import ViewPolicy, weights
from asymspec_agents.gateway.checking import CheckedCall
from asymspec_agents.trace import MemoryRecorder
from tests.gateway import serving
from tests.presets import preset_folder
from tests.serve_process import serve_process
from tests.stock import SYSTEM

pytestmark = pytest.mark.full

NUM_CALLS = 6
KEY = "sk-of-this-test"
RULES = " ".join(f"Shelf {n} holds parts of width {n * 7 % 31} mm in lots of {n}." for n in range(1, 9))
DESCRIPTION = f"Reads one page of the list of parts. {RULES}"
POLICY = ViewPolicy(first_sight_tokens=60, min_part_tokens=30, ratio=0.3)


def page_of_parts(page: int) -> str:
    """A long result."""
    lines = [f"part P-{page}{line:02}: {line * 7 % 90} in stock, shelf {line}" for line in range(9)]
    return f"Page {page} of the list\n" + "\n".join(lines)


class ReadPage(Tool):
    name = "read_page"
    description = DESCRIPTION
    inputs: ClassVar[dict[str, Any]] = {"page": {"type": "integer", "description": "The page's number"}}
    output_type = "string"

    def forward(self, page: int) -> str:
        return page_of_parts(page)


class Watched:
    """A gateway's address, the full views it sends, its trace, and the answers' bodies that clients got."""

    def __init__(self) -> None:
        self.url = ""
        self.recorder = MemoryRecorder()
        self.sent: list[dict[str, Any]] = []
        self.answers: list[dict[str, Any]] = []
        self.client = httpx.Client(event_hooks={"response": [self._keep]}, timeout=600)

    async def check(self, call: CheckedCall) -> None:
        self.sent.append(copy.deepcopy(dict(call.body)))

    def _keep(self, response: httpx.Response) -> None:
        response.read()
        assert response.headers["x-asymspec-view"] == "both"
        self.answers.append(response.json())


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    for name in (weights.DEFAULT_PAIR.verifier, weights.DEFAULT_PAIR.drafter):
        preset_folder(name)
    with serve_process(api_key=KEY) as address:
        yield address


@pytest.fixture
def watched(server: str) -> Iterator[Watched]:
    seen = Watched()
    with (
        seen.client,
        serving.gateway(
            server, upstream_key=KEY, policy=POLICY, check=seen.check, recorder=seen.recorder
        ) as seen.url,
    ):
        yield seen


def check_run(watched: Watched, num_forced: int) -> None:
    """Both views in every call, calls and results together, and each prompt continues the one before."""
    gateway = [event for event in watched.recorder.events if event.event == "gateway"]
    views = [event for event in watched.recorder.events if event.event == "view"]
    answered = [event for event in watched.recorder.events if event.event == "response"]
    assert len(gateway) == len(views) == len(answered) == len(watched.sent) == len(watched.answers)
    assert all((event.view, event.speaks_asymspec) == ("both", True) for event in gateway)
    for body in watched.sent:
        calls = [call["id"] for message in body["messages"] for call in message.get("tool_calls") or ()]
        results = [message["tool_call_id"] for message in body["messages"] if message["role"] == "tool"]
        assert results == calls
    reports = [answer["asymspec"] for answer in watched.answers]
    for report in reports:
        assert (report["mode"], report["fallback"]) == ("asymspec", None)
    assert all(
        report["verifier_prompt_tokens"] < 0.7 * report["drafter_prompt_tokens"] for report in reports[2:]
    )
    for before, after in itertools.pairwise(reports[:num_forced]):
        for role in ("verifier", "drafter"):
            assert after["cached_tokens"][role] >= 0.5 * before[f"{role}_prompt_tokens"]
        assert (
            after["cached_tokens"]["drafter"] >= before["drafter_prompt_tokens"] - 32
        )  # the last turn's end


def test_a_smolagents_agent(watched: Watched) -> None:
    templates = copy.deepcopy(EMPTY_PROMPT_TEMPLATES)
    templates["system_prompt"] = SYSTEM
    templates["final_answer"] = {"pre_messages": "Give the answer.", "post_messages": "Task: {{task}}"}
    model = OpenAIModel(
        weights.DEFAULT_PAIR.verifier,
        api_base=f"{watched.url}/v1",
        api_key="none",
        client_kwargs={"http_client": watched.client},
        max_tokens=30,
    )
    agent = ToolCallingAgent(
        [ReadPage()], model, prompt_templates=templates, max_steps=NUM_CALLS, verbosity_level=0
    )
    del agent.tools["final_answer"]  # so that it reads until its steps are used up, and answers then
    assert agent.run("How many of P-307 are in stock?")
    assert len(watched.sent) == NUM_CALLS + 1
    results = [step.observations for step in agent.memory.steps if getattr(step, "observations", None)]
    assert len(results) == NUM_CALLS
    assert all(result.startswith("Page ") for result in results)
    check_run(watched, NUM_CALLS)


def test_a_langchain_agent(watched: Watched) -> None:
    @tool
    def read_page(page: int) -> str:
        """Reads a page."""
        return page_of_parts(page)

    read_page.description = DESCRIPTION

    class SixCalls(AgentMiddleware[Any, Any, Any]):
        """Has the model call the tool six times, and answer then."""

        def wrap_model_call(self, request: ModelRequest[Any], handler: Any) -> Any:
            num_results = sum(isinstance(message, ToolMessage) for message in request.messages)
            return handler(request.override(tool_choice="read_page" if num_results < NUM_CALLS else "none"))

    model = ChatOpenAI(
        model=weights.DEFAULT_PAIR.verifier,
        base_url=f"{watched.url}/v1",
        api_key="none",
        http_client=watched.client,
        max_tokens=30,
        temperature=0,
    )
    agent = create_agent(
        model, [read_page], system_prompt="Answer with the tool's help.", middleware=[SixCalls()]
    )
    state = agent.invoke({"messages": [{"role": "user", "content": "How many of P-307 are in stock?"}]})
    answers = [message for message in state["messages"] if isinstance(message, AIMessage)]
    assert [len(answer.tool_calls) for answer in answers] == [1] * NUM_CALLS + [0]
    results = [message.text for message in state["messages"] if isinstance(message, ToolMessage)]
    assert all(result.startswith("Page ") for result in results)
    check_run(watched, NUM_CALLS)
