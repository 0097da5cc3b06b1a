"""What a call cost, as the engine counted it and as it follows from a server's answer."""

from __future__ import annotations

import pytest

from asymspec_agents.backends import ChatRequest, Usage
from asymspec_agents.cli.demo_costs import CallCost, recorded_cost, reported_cost
from asymspec_agents.protocol import AsymSpecReport, AsymSpecRequest
from asymspec_agents.trace import MemoryRecorder, ResponseEvent
from tests.engine.tiny_folder import random_backend

TEXT = "What is the weather like in a town by the sea? " * 4


@pytest.mark.parametrize("num_tokens", [1, 7, 12])
@pytest.mark.parametrize("arm", ["asymspec", "floor", "ceiling", "drafter"])
@pytest.mark.parametrize("short", ["Weather?", TEXT], ids=["two views", "identical views"])
def test_both_ways_of_counting_agree(arm: str, num_tokens: int, short: str) -> None:
    backend = random_backend()
    backend.engine.recorder = recorder = MemoryRecorder()
    for _ in range(2):  # the second call finds the first one's caches
        asymspec = AsymSpecRequest.of(edits=({"message": 0, "text": short},))
        request = ChatRequest(
            messages=({"role": "user", "content": TEXT},), asymspec=asymspec, max_tokens=num_tokens
        )
        response = backend.with_arm(arm).generate(request)
        assert response.report is not None
        event = next(e for e in reversed(recorder.events) if isinstance(e, ResponseEvent))
        recorded = recorded_cost(arm, response.usage, response.report, event)
        reported = reported_cost(arm, response.usage, response.report)
        assert (reported.verifier_read, reported.drafter_read) == (
            recorded.verifier_read,
            recorded.drafter_read,
        )
        assert reported.verifier_ran == recorded.verifier_ran
        # The base pass may begin with what the drafter read in the same call, which no report says.
        shared = reported.drafter_ran - recorded.drafter_ran
        assert 0 <= shared <= response.report.verifier_prompt_tokens


def test_a_server_that_reports_little_costs_what_it_reports() -> None:
    assert reported_cost("floor", Usage(10, 0), AsymSpecReport()) == CallCost(10, 10, 0, 0)
    assert reported_cost("drafter", Usage(10, 3, 4), AsymSpecReport()) == CallCost(0, 0, 10, 8)
