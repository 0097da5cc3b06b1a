"""A smolagents agent on the real pair: both views of every call, its report, its trace (also in a browser).

Uses the cache (ASYMSPEC_CACHE or the user's); fetches nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("smolagents")

from smolagents import ToolCallingAgent
from smolagents.agents import EMPTY_PROMPT_TEMPLATES

from asymspec_agents import ChatRequest, ChatResponse, ContextRouter, LocalBackend, weights
from asymspec_agents.trace import MemoryRecorder, measure_requests
from asymspec_agents.trace.story import tell
from asymspec_agents.trace.viewer import render_page, story_data
from smolagents_asymspec import AsymSpecModel
from tests.presets import preset_folder
from tests.stock import SYSTEM, Stock
from tests.viewer.browser import chromium, opened

pytestmark = pytest.mark.full

MAX_TOKENS = 40
TASK = "How many belts of type B-77-K are in stock?"


class Listening(LocalBackend):
    """Keeps what it is asked and what it answers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.calls: list[tuple[ChatRequest, ChatResponse]] = []

    def generate(self, request: ChatRequest) -> ChatResponse:
        response = super().generate(request)
        self.calls.append((request, response))
        return response


@pytest.fixture(scope="module")
def recorder() -> MemoryRecorder:
    return MemoryRecorder(captures_content=True, level="detail")


@pytest.fixture(scope="module")
def backend(recorder: MemoryRecorder) -> Iterator[Listening]:
    for name in (weights.DEFAULT_PAIR.verifier, weights.DEFAULT_PAIR.drafter):
        preset_folder(name)
    backend = Listening.load(recorder=recorder)
    assert isinstance(backend, Listening)
    yield backend
    backend.engine.prefixes.clear()


@pytest.fixture(scope="module")
def run(backend: Listening, recorder: MemoryRecorder) -> Any:
    templates = copy.deepcopy(EMPTY_PROMPT_TEMPLATES)
    templates["system_prompt"] = SYSTEM
    templates["final_answer"] = {"pre_messages": "Give the answer.", "post_messages": "Task: {{task}}"}
    router = ContextRouter(recorder=recorder)
    model = AsymSpecModel(backend, router, max_tokens=MAX_TOKENS)
    agent = ToolCallingAgent([Stock()], model, prompt_templates=templates, max_steps=2, verbosity_level=0)
    return agent.run(TASK, return_full_result=True)


def test_an_agents_run(backend: Listening, recorder: MemoryRecorder, run: Any) -> None:
    assert run.output is not None
    assert len(backend.calls) >= 2  # what the models answer is theirs; what is counted has to be right

    by_id = {item.request_id: item for item in measure_requests(recorder.events)}
    assert set(by_id) == {request.request_id for request, _ in backend.calls}
    for request, response in backend.calls:
        report, traced = response.report, by_id[request.request_id].metrics
        assert report is not None
        if request.tools:
            assert (report.mode, report.fallback) == ("asymspec", None)
            assert report.verifier_prompt_tokens < 0.6 * report.drafter_prompt_tokens
        else:  # the answer after the last step has no documentation to leave out
            assert (report.mode, report.fallback) == ("strict", "identical_views")
        assert report.drafter_prompt_tokens == backend.count_prompt(request.messages, request.tools)
        assert response.usage.prompt_tokens == report.verifier_prompt_tokens == traced.prompt_tokens.verifier
        assert response.usage.cached_tokens == report.cached_tokens.verifier == traced.cached_tokens.verifier
        assert report.drafter_prompt_tokens == traced.prompt_tokens.drafter
        assert (report.blocks, report.drafted) == (traced.num_blocks, traced.num_drafted)
        assert (report.accepted, report.fused) == (traced.num_accepted, traced.num_fused)
        counted = traced.accepted_per_position
        assert report.accepted_per_position[: len(counted)] == counted
        assert sum(report.accepted_per_position) == report.accepted
        assert report.accepted + report.fused + report.bonus == traced.num_emitted
        assert traced.num_response_tokens == response.usage.completion_tokens <= MAX_TOKENS
        assert traced.num_emitted >= response.usage.completion_tokens
        computed = traced.forwarded_tokens.verifier
        unread = report.verifier_prompt_tokens - report.cached_tokens.verifier
        assert unread <= computed <= unread + 3 * report.blocks  # a block reads K + 1 positions

    # the second step's prompt continues the first's, in every view
    first, second = (response.report for _, response in backend.calls[:2])
    assert first is not None
    assert second is not None
    assert first.cached_tokens.verifier == first.cached_tokens.drafter == 0
    assert second.cached_tokens.verifier >= first.verifier_prompt_tokens - 1
    assert second.cached_tokens.drafter >= first.drafter_prompt_tokens - 1
    assert second.cached_tokens.base >= first.verifier_prompt_tokens - 1

    # smolagents adds up what the calls report
    assert run.token_usage is not None
    usages = [response.usage for _, response in backend.calls]
    assert run.token_usage.input_tokens == sum(usage.prompt_tokens for usage in usages)
    assert run.token_usage.output_tokens == sum(usage.completion_tokens for usage in usages)


@pytest.mark.usefixtures("run")
def test_its_trace_in_a_browser(backend: Listening, recorder: MemoryRecorder, tmp_path: Path) -> None:
    story = tell(recorder.events, title="run")
    assert [call.request_id for call in story.calls] == [request.request_id for request, _ in backend.calls]
    for call, (_, response) in zip(story.calls, backend.calls, strict=True):
        assert response.report is not None
        assert call.metrics.num_accepted == response.report.accepted
        assert len(call.positions()) == response.usage.completion_tokens
    with chromium() as browser, opened(browser, render_page(story_data(story), "run"), tmp_path) as page:
        for number, call in enumerate(story.calls, start=1):
            page.select(number)
            label = page.tab.locator(f"#row-{number}").get_attribute("aria-label") or ""
            assert f"full view {call.full_tokens:,} tokens" in label
            assert f"compressed view {call.compressed_tokens:,} tokens" in label
            assert page.tab.locator(".token[data-at]").count() == len(call.positions())
            for at, position in enumerate(call.positions()):
                if position.origin == "fused" and position.divergence is not None:
                    page.tab.locator(f'.token[data-at="{at}"]').focus()
                    assert f"Token {at + 1}:" in page.text(".panel")
                    assert "refused" in page.text(".panel")
                    break
        page.tab.locator("#query").fill("B-77-K")
        page.tab.keyboard.press("Enter")
        assert page.text("#hits").startswith("1 of ")
