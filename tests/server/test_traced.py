"""A server's trace and its client's make one story, call by call, and sum to the reports."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")

from asymspec_agents import HTTPBackend
from asymspec_agents.backends import ChatRequest, new_request_id
from asymspec_agents.recording import for_request
from asymspec_agents.router import ContextRouter
from asymspec_agents.trace import JSONLRecorder
from asymspec_agents.trace.story import read_story
from asymspec_agents.views import ViewPolicy
from tests.engine.tiny_folder import random_backend

from .serving import serving

LOG = "\n".join(f"12:{n:02}:00 request {n} served" for n in range(20))


def test_a_client_and_its_server_tell_one_story(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "client.jsonl", tmp_path / "server.jsonl"
    reports = []
    with (
        JSONLRecorder(ours, captures_content=True) as client,
        JSONLRecorder(theirs, level="detail") as server,
    ):
        router = ContextRouter(ViewPolicy(keep_last=0), recorder=client)
        with serving(random_backend(recorder=server)) as url, contextlib.closing(HTTPBackend(url)) as backend:
            messages = [{"role": "user", "content": "What does the log say?"}]
            for turn in range(2):
                request_id = new_request_id()
                with for_request(request_id):
                    routed = router.route(messages)
                answer = backend.generate(
                    ChatRequest(
                        messages=routed.full, asymspec=routed.request(), max_tokens=9, request_id=request_id
                    )
                )
                reports.append(answer.report)
                call = {"name": "read_log", "arguments": "{}"}
                messages += [
                    {
                        "role": "assistant",
                        "tool_calls": [{"id": f"c{turn}", "type": "function", "function": call}],
                    },
                    {"role": "tool", "tool_call_id": f"c{turn}", "content": LOG},
                ]
    story = read_story(theirs, ours)
    assert len(story.runs) == 1
    assert len(story.calls) == len(reports)
    for call, report in zip(story.calls, reports, strict=True):
        assert report is not None
        assert call.view is not None
        assert call.latency.known().keys() == {"compress", "queue", "prefill", "decode"}
        assert (call.metrics.num_drafted, call.metrics.num_accepted) == (report.drafted, report.accepted)
        assert call.num_changed is not None
    second = story.calls[1]
    assert (second.full_tokens or 0) > (second.compressed_tokens or 0)
    assert second.view is not None
    assert LOG in story.texts.values()
    assert LOG not in theirs.read_text()
