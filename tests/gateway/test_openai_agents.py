"""The OpenAI Agents SDK through a gateway: a run of several steps, whole and streamed.

openai/openai-agents-python #2317: compacting between a call and its result made the next request a 400. A
compressed view keeps every call beside its result.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import openai
import pytest
from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled

from tests.gateway.scripted import EVENTS, Got, Script, Upstream, chunks, completion
from tests.gateway.test_responses_client import PAGE, calling

NUM_STEPS = 6


@function_tool
def read(n: int) -> str:
    """Reads a page of the manual.

    Args:
        n: The page's number.
    """
    return f"Page {n}\n{PAGE}" + ("The service listens on port 8123.\n" if n == 4 else "")


def answer(got: Got) -> Script:
    results = [message for message in got.body["messages"] if message["role"] == "tool"]
    if len(results) < NUM_STEPS:
        return calling(len(results), got)
    if got.body.get("stream"):
        return Script([*chunks("Port ", "8123")], headers=[EVENTS])
    return Script([completion("Port 8123")])


@pytest.mark.parametrize("streams", [False, True])
def test_an_agent_of_several_steps_runs_to_its_end(pair: tuple[Upstream, str], streams: bool) -> None:
    set_tracing_disabled(True)

    async def run(url: str) -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            model = OpenAIResponsesModel("big", client)
            agent = Agent(name="reader", instructions="You read.", tools=[read], model=model)
            task = "Which port does the service listen on?"
            if streams:
                streamed = Runner.run_streamed(agent, task)
                async for _ in streamed.stream_events():
                    pass
                return streamed
            return await Runner.run(agent, task)

    upstream, url = pair
    upstream.answer = answer
    result = asyncio.run(run(url))
    assert result.final_output == "Port 8123"
    assert len(upstream.calls) == NUM_STEPS + 1
    for number, got in enumerate(upstream.calls):
        messages = got.body["messages"]
        assert [message["role"] for message in messages] == [
            "system",
            "user",
            *["assistant", "tool"] * number,
        ]
        calls = [message["tool_calls"][0]["id"] for message in messages if message["role"] == "assistant"]
        assert [m["tool_call_id"] for m in messages if m["role"] == "tool"] == calls
        edited = {edit["message"] for edit in got.body["asymspec"]["edits"]}
        assert edited == set(range(3, 3 + 2 * number, 2))
    views = [_view(got.body) for got in upstream.calls]
    for before, after in pairwise(views):
        assert after[: len(before)] == before  # the verifier's prefix cache is reused from call to call
    assert any("8123" in message["content"] for message in views[-1] if message["role"] == "tool")


def _view(body: dict[str, Any]) -> list[Any]:
    messages = [dict(message) for message in body["messages"]]
    for edit in body["asymspec"]["edits"]:
        messages[edit["message"]]["content"] = edit["text"]
    return messages
