"""What the frameworks' integrations share: routing that fails open, and backends by a model's name."""

from __future__ import annotations

import asyncio

import pytest

from asymspec_agents import ChatRequest, ContextRouter, HTTPBackend, ScriptedBackend, ViewPolicy
from asymspec_agents.attachments import AttachmentPolicy, Attachments
from asymspec_agents.backends import Backend
from asymspec_agents.compress.headtail import HeadTail
from asymspec_agents.errors import ContextOverflowError, ServerError, UnsupportedRequestError
from asymspec_agents.fail_open import FailOpen
from asymspec_agents.trace import MemoryRecorder

REQUEST = ChatRequest(messages=({"role": "user", "content": "Hello"},), asymspec={"edits": []})


def test_a_failure_is_recorded_each_time_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    recorder = MemoryRecorder()
    guard = FailOpen(recorder)

    def fail() -> int:
        raise RuntimeError("somebody's text")

    async def afail() -> int:
        return fail()

    assert guard.guarded(lambda: 3) == 3
    assert guard.guarded(fail) is None
    assert asyncio.run(guard.aguarded(afail())) is None
    assert [event.event for event in recorder.events] == ["route_failed"] * 2
    assert len(caplog.records) == 1
    assert "somebody's text" not in caplog.text


def test_a_routers_answer_and_a_cancelled_task_are_no_failures() -> None:
    recorder = MemoryRecorder()
    guard = FailOpen(recorder)

    def too_long() -> None:
        raise ContextOverflowError("full", 9, 5)

    async def atoo_long() -> None:
        too_long()

    async def cancelled() -> None:
        task = asyncio.ensure_future(guard.aguarded(asyncio.sleep(60)))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(ContextOverflowError):
        guard.guarded(too_long)
    with pytest.raises(ContextOverflowError):
        asyncio.run(guard.aguarded(atoo_long()))
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(cancelled())
    assert not recorder.events


def test_equal_configurations_are_equal_routers() -> None:
    same = [ContextRouter().configuration, ContextRouter(ViewPolicy()).configuration]
    assert same[0] == same[1]
    others = {
        ContextRouter(ViewPolicy(keep_last=5)).configuration,
        ContextRouter(compressor=HeadTail()).configuration,
        ContextRouter(attachments=Attachments(AttachmentPolicy(max_file_bytes=5))).configuration,
    }
    assert len(others) == 3
    assert same[0] not in others


def test_a_backend_here_answers_by_its_own_model_only() -> None:
    backend = ScriptedBackend(["a"], model="big")
    assert backend.with_model("big") is backend
    with pytest.raises(UnsupportedRequestError, match="model='small' is not"):
        backend.with_model("small")


def test_a_server_answers_by_any_model_it_knows() -> None:
    pytest.importorskip("starlette")
    from tests.server.serving import serving

    backends: dict[str, Backend] = {
        name: ScriptedBackend(lambda request, name=name: f"by {name}", model="big", drafter="small")
        for name in ("big", "small")
    }
    with serving(backends) as url:
        backend = HTTPBackend(url)
        answer = backend.with_model("small").generate(REQUEST)
        assert (answer.content, answer.report.mode if answer.report else None) == ("by small", "drafter")
        same = backend.with_model("big").generate(REQUEST)
        assert (same.content, same.report.mode if same.report else None) == ("by big", "asymspec")
        assert backend.generate(REQUEST).content == "by big"
        with pytest.raises(ServerError, match="404: model='none' is not here"):
            backend.with_model("none").generate(REQUEST)
        backend.close()
