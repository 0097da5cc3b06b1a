"""Parts of a call's record: events kept apart, peak memory, both views to look at, calls that are left."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from asymspec_agents.backends import ChatRequest, CompletionRequest, ScriptedBackend, scripted_response
from asymspec_agents.errors import BackendError, UnsupportedRequestError
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecReport, AsymSpecRequest
from evals.answering import Answering, EventLog
from evals.recorded import RecordedBackend
from evals.records import Call
from evals.systems import memory
from evals.systems.memory import PeakMemory
from evals.systems.putting import by_options, compressed_only, identical
from evals.views.shown import MAX_CHARS, shown_views
from tests.engine.tiny_folder import WEATHER


def chat(**asymspec: object) -> ChatRequest:
    parts = [{"type": "text", "text": "a long text"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
    return ChatRequest(
        messages=({"role": "user", "content": parts}, {"role": "user", "content": "Well?"}),  # type: ignore[arg-type]
        tools=(WEATHER,),  # type: ignore[arg-type]
        asymspec=AsymSpecRequest.of(**asymspec) if asymspec else None,
    )


def test_events_of_requests_that_nobody_watches_are_not_kept() -> None:
    log = EventLog()
    log.watch("mine")
    for request_id in ("mine", "theirs", "mine"):
        log.record("error", request_id=request_id, message="x")
    log.record("view", num_messages=1)
    assert [event.event for event in log.take("mine")] == ["error", "error"]
    assert log.take("mine") == log.take("theirs") == ()
    log.record("error", request_id="mine")
    assert log.take("mine") == ()


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux tells")
def test_peak_memory_is_that_since_it_was_watched() -> None:
    before = PeakMemory("cpu")()
    if before is None:
        pytest.skip("this process may not reset its high water mark")
    peak = PeakMemory("cpu")
    held = bytearray(64 << 20)
    held[::4096] = b"x" * len(held[::4096])
    with_it = peak()
    del held
    assert with_it is not None
    assert with_it >= before + (48 << 20)
    after = PeakMemory("cpu")()
    assert after is not None
    assert after < with_it


def test_where_memory_is_not_told_there_is_no_figure(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(memory, "CLEAR_REFS", tmp_path / "none" / "clear_refs")
    assert PeakMemory("cpu")() is None
    monkeypatch.setattr(memory, "CLEAR_REFS", tmp_path / "clear_refs")
    monkeypatch.setattr(memory, "STATUS", tmp_path / "status")
    assert PeakMemory("cpu")() is None


def test_both_views_are_shown_where_they_differ() -> None:
    edits = [{"message": 0, "part": 0, "text": "short"}, {"message": 0, "part": 1, "text": "a chart"}]
    first, image = shown_views(chat(edits=edits))
    assert first == {
        "place": "messages[0].content[0]",
        "role": "user",
        "full": "a long text",
        "compressed": "short",
    }
    assert (image["full"], image["compressed"]) == ("[image_url]", "a chart")
    (whole,) = shown_views(chat(messages=[{"role": "user", "content": "all in short"}]))
    assert (whole["place"], whole["compressed"]) == ("messages", "user:\nall in short")
    assert "a long text" in whole["full"]
    assert shown_views(chat()) == shown_views(chat(edits=[])) == ()


def test_what_is_shown_is_limited_and_says_so() -> None:
    long = "x" * (MAX_CHARS + 500)
    request = ChatRequest(
        messages=({"role": "user", "content": long}, {"role": "user", "content": long}),  # type: ignore[arg-type]
        asymspec=AsymSpecRequest.of(edits=[{"message": i, "text": "y" * 100} for i in range(2)]),
    )
    first, second = shown_views(request)
    assert first["compressed"] == second["compressed"] == "y" * 100
    assert first["full"].endswith("[700 more characters]")
    assert second["full"] == f"\n[{len(long):,} more characters]"
    assert first["is_cut"] is second["is_cut"] is True


def test_requests_are_put_as_arms_want_them() -> None:
    options = AsymSpecOptions.of(mode="strict", num_draft_tokens=3)
    edits = [{"message": 1, "text": "?"}]
    bare = {"type": "function", "function": {"name": "weather"}}
    asked = chat(edits=edits, tools=[bare], mode="product", on_sampling="greedy")
    both = by_options(options)(asked).asymspec
    assert both is not None
    assert (both.mode, both.num_draft_tokens, both.on_sampling) == ("strict", 3, "greedy")
    assert both.edits == asked.asymspec.edits  # type: ignore[union-attr]
    assert both.tools == asked.asymspec.tools  # type: ignore[union-attr]
    twice = identical(options)(asked)
    assert (twice.messages, twice.asymspec.edits, twice.asymspec.tools) == (asked.messages, (), None)  # type: ignore[union-attr]
    short = compressed_only(options)(asked)
    assert short.messages[1].content == "?"
    assert short.tools == both.tools
    assert (short.asymspec.edits, short.asymspec.tools) == ((), None)  # type: ignore[union-attr]
    for put in (by_options(options), compressed_only(options)):
        plain = put(chat())
        assert (plain.messages, plain.asymspec.edits) == (chat().messages, ())  # type: ignore[union-attr]


def recorded(backend: ScriptedBackend, **how: object) -> tuple[RecordedBackend, list[Call]]:
    kept: list[Call] = []
    answering = Answering(backend=backend, put=lambda request: request, **how)  # type: ignore[arg-type]
    return RecordedBackend(answering, lambda call, request: kept.append(call), cache_salt="salt"), kept


REPORT = AsymSpecReport(
    mode="fixed+none",
    verifier_prompt_tokens=30,
    drafter_prompt_tokens=100,
    blocks=4,
    drafted=12,
    accepted=7,
    fused=3,
    accepted_per_position=(4, 2, 1),
    mean_divergence=0.2,
)


@pytest.mark.parametrize("streams", [True, False])
def test_a_servers_report_becomes_a_record(streams: bool) -> None:
    answer = scripted_response("one two", report=REPORT)
    backend, kept = recorded(ScriptedBackend([answer, answer]), streams=streams)
    request = chat(edits=[])
    backend.generate(request)
    asyncio.run(backend.agenerate(request))
    for call in kept:
        assert (call.mode, call.num_blocks, call.num_judged) == ("fixed+none", 4, 10)
        assert call.divergence_sum == pytest.approx(2.0)
        assert call.drafted_per_position == (4, 4, 4)
        assert (call.prompt_tokens.verifier, call.prompt_tokens.base) == (30, 30)
        assert call.prompt_tokens.drafter == 100
        assert (call.text, call.segments) == ("one two", (("one two", "plain"),))
        assert (call.time_to_first_token_s is not None) == streams
    assert len(kept) == 2


@pytest.mark.parametrize("salts", [True, False])
def test_caches_are_isolated_where_the_backend_can(salts: bool) -> None:
    scripted = ScriptedBackend(["yes"])
    backend, _ = recorded(scripted, salts=salts)
    backend.generate(chat(edits=[]))
    assert scripted.requests[0].cache_salt == ("salt" if salts else None)


@pytest.mark.parametrize("streams", [True, False])
def test_calls_that_fail_are_recorded_whichever_way_they_are_made(streams: bool) -> None:
    backend, kept = recorded(ScriptedBackend([BackendError("no")] * 3), streams=streams)

    async def awaited() -> None:
        await backend.agenerate(chat(edits=[]))

    for make in (lambda: backend.generate(chat(edits=[])), lambda: asyncio.run(awaited())):
        with pytest.raises(BackendError, match="no"):
            make()
    with pytest.raises(BackendError, match="no"):
        list(backend.stream(chat(edits=[])))
    assert [call.finish_reason for call in kept] == ["error"] * 3


def test_an_async_stream_that_is_left_is_recorded() -> None:
    backend, kept = recorded(ScriptedBackend(["one\ntwo\nthree\n"]))

    async def first_line() -> str:
        deltas = backend.astream(chat(edits=[]))
        async for delta in deltas:
            await deltas.aclose()  # type: ignore[attr-defined]
            return delta.content
        return ""

    assert asyncio.run(first_line()) == "one\n"
    assert [(call.finish_reason, call.text) for call in kept] == [("aborted", "one\n")]


def test_texts_are_not_completed_by_an_arm() -> None:
    backend, kept = recorded(ScriptedBackend(["yes"]))
    with pytest.raises(UnsupportedRequestError, match="chats only"):
        backend.generate(CompletionRequest(prompt="Once"))
    assert kept == []
