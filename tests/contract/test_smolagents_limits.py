"""What a model built from a backend alone makes of that backend's limits, and what it refuses."""

from __future__ import annotations

import pytest

from asymspec_agents import ContextRouter, ViewPolicy
from asymspec_agents.backends.scripted import ScriptedBackend
from asymspec_agents.errors import ConfigurationError
from smolagents_asymspec import AsymSpecModel
from tests.engine.tiny_folder import random_backend


def test_without_a_router_both_views_stay_within_the_backends_limits() -> None:
    backend = random_backend()
    can = backend.capabilities
    assert can.max_verifier_tokens is not None
    assert can.max_drafter_tokens is not None
    log = "\n".join(f"line {number}: nothing to see" for number in range(3_000))
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "What does the log say?"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "Calling tools:\n[]"}]},
        {"role": "user", "content": [{"type": "text", "text": f"Observation:\n{log}"}]},
    ]
    answer = AsymSpecModel(backend, max_tokens=8).generate(messages)
    report = answer.raw.report
    assert 0.5 * can.max_verifier_tokens < report.verifier_prompt_tokens <= can.max_verifier_tokens - 8
    assert 0.5 * can.max_drafter_tokens < report.drafter_prompt_tokens <= can.max_drafter_tokens - 8


def test_a_saved_model_keeps_its_policy() -> None:
    policy = ViewPolicy(keep_last=5, max_verifier_tokens=9_000, protected=(r"\d+",))
    model = AsymSpecModel(ScriptedBackend([]), ContextRouter(policy))
    loaded = AsymSpecModel.from_dict(model.to_dict(), backend=ScriptedBackend([]))
    assert loaded.routing.router.policy == policy


def test_what_is_no_backend_or_router_is_refused_at_once() -> None:
    with pytest.raises(ConfigurationError, match="backend must be a Backend, not str"):
        AsymSpecModel("qwen")
    with pytest.raises(ConfigurationError, match="router must be a ContextRouter, not int"):
        AsymSpecModel(ScriptedBackend([]), 5)
