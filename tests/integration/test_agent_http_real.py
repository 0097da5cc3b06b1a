"""A smolagents agent against a real `asymspec serve` process on the real pair, by both models.

Uses the cache (ASYMSPEC_CACHE or the user's); fetches nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("smolagents")
pytest.importorskip("openai")

from smolagents import OpenAIModel, ToolCallingAgent
from smolagents.agents import EMPTY_PROMPT_TEMPLATES, ActionStep

from asymspec_agents import AsymSpecOptions, HTTPBackend, weights
from asymspec_agents.protocol import AsymSpecReport
from smolagents_asymspec import AsymSpecModel, RoutedModel
from tests.presets import preset_folder
from tests.serve_process import serve_process
from tests.stock import SYSTEM, Stock

pytestmark = pytest.mark.full

KEY = "sk-of-this-test"
MAX_TOKENS = 40


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of a server process; it is told to stop afterwards, and has to end by itself."""
    for name in (weights.DEFAULT_PAIR.verifier, weights.DEFAULT_PAIR.drafter):
        preset_folder(name)
    with serve_process(api_key=KEY) as address:
        yield address


def _run(model: AsymSpecModel | RoutedModel) -> tuple[list[Any], ActionStep]:
    templates = copy.deepcopy(EMPTY_PROMPT_TEMPLATES)
    templates["system_prompt"] = SYSTEM
    templates["final_answer"] = {"pre_messages": "Give the answer.", "post_messages": "Task: {{task}}"}
    agent = ToolCallingAgent([Stock()], model, prompt_templates=templates, max_steps=2, verbosity_level=0)
    assert agent.run("How many belts of type B-77-K are in stock?") is not None
    steps = [step for step in agent.memory.steps if isinstance(step, ActionStep)]
    messages = [step.model_output_message for step in steps if step.model_output_message is not None]
    return messages, steps[0]


def test_both_models_get_the_same_from_the_server(url: str) -> None:
    backend = HTTPBackend(url, api_key=KEY)
    ours, our_step = _run(AsymSpecModel(backend, max_tokens=MAX_TOKENS, tool_choice="required"))
    inner = OpenAIModel(
        weights.DEFAULT_PAIR.verifier, api_base=url, api_key=KEY, max_tokens=MAX_TOKENS, extra_body={}
    )
    theirs, their_step = _run(RoutedModel(inner, options=AsymSpecOptions()))
    backend.close()

    reports = [message.raw.report for message in ours if message.tool_calls]
    answered = [message.raw for message in theirs if message.tool_calls]
    reports += [AsymSpecReport.model_validate(raw.model_extra["asymspec"]) for raw in answered]
    assert len(reports) >= 2
    for report in reports:
        assert (report.mode, report.fallback) == ("asymspec", None)
        assert report.verifier_prompt_tokens < 0.6 * report.drafter_prompt_tokens
    # The same two views, so the same tokens; the second run finds the first one's caches.
    made = [
        [(call.name, call.arguments) for call in step.tool_calls or ()] for step in (our_step, their_step)
    ]
    assert made[0] == made[1] != []
    first, second = reports[0], AsymSpecReport.model_validate(answered[0].model_extra["asymspec"])
    assert second.verifier_prompt_tokens == first.verifier_prompt_tokens
    assert second.cached_tokens.verifier == second.verifier_prompt_tokens - 1
