"""Traces that nobody would write: numbers that are none or too large, files named twice, marks and modes."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from asymspec_agents.trace import (
    JSONLRecorder,
    MemoryRecorder,
    Metrics,
    OtherEvent,
    PositionRecord,
    RecordLimits,
    ResponseEvent,
    measure,
    parse_event,
    read_trace,
)
from asymspec_agents.trace.story import read_story, remarks, tell
from asymspec_agents.trace.viewer import render_page, story_data


def test_a_file_that_gets_contents_later_becomes_private(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("")
    path.chmod(0o644)
    JSONLRecorder(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    JSONLRecorder(path, captures_content=True).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize("name", ["num_drafted", "num_accepted", "num_fused", "num_bonus", "index"])
def test_counts_beyond_all_bounds_are_malformed(name: str) -> None:
    counts = {"index": 0, "num_drafted": 1, "num_accepted": 1} | {name: 10**400}
    event = parse_event({"event": "block", "timestamp_s": 1.0, **counts}, is_json=True)
    assert isinstance(event, OtherEvent)


def test_a_byte_order_mark_is_no_part_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"event":"response","timestamp_s":1}\n')
    trace = read_trace(path)
    assert trace.notes == ()
    assert isinstance(trace.events[0], ResponseEvent)


NO_NUMBERS = """{"event":"view","timestamp_s":1,"request_id":"r","elapsed_s":"NaN"}
{"event":"request","timestamp_s":1,"request_id":"r","queue_s":"Infinity","beta":"NaN","gamma":1e999}
{"event":"response","timestamp_s":1,"request_id":"r","elapsed_s":1e999,"prefill_s":"-Infinity","num_tokens":2}
"""


def test_numbers_that_json_lacks_are_unknown_ones(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(NO_NUMBERS)
    (call,) = read_story(path).calls
    assert call.latency.known() == {}
    data = json.loads(json.dumps(story_data(read_story(path)), allow_nan=False))
    assert data["calls"][0]["options"]["beta"] is data["calls"][0]["options"]["gamma"] is None
    assert data["total"]["num_response_tokens"] == 2
    assert "<!doctype html>" in render_page(data, "t")


def test_totals_may_be_more_than_one_event_may_say(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    line = '{"event":"request","timestamp_s":1,"prompt_tokens":{"verifier":9007199254740992}}\n'
    path.write_text(line * 3)
    assert read_story(path).total.summary()["computed_tokens"]["verifier"] == 3 * 2**53


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"event":"response","timestamp_s":1,"request_id":"r","num_tokens":2}\n')
    link = tmp_path / "link.jsonl"
    link.symlink_to(path)
    assert read_story(path, link, path).total.num_response_tokens == 2


def answered(recorder: MemoryRecorder, request_id: str, text: str) -> None:
    recorder.record("request", request_id=request_id, prompt_tokens={"verifier": 5})
    recorder.record("block", request_id=request_id, index=0, num_drafted=1, num_accepted=1, text=text)
    recorder.record("response", request_id=request_id, num_tokens=1, finish_reason="stop")


def test_an_id_that_clients_use_again_is_another_call() -> None:
    recorder = MemoryRecorder(captures_content=True)
    for text in ("one", "two"):
        recorder.record("view", request_id="same", full_tokens=len(text))
        answered(recorder, "same", text)
    story = tell(recorder.events)
    assert [(call.number, call.answer, call.full_tokens) for call in story.calls] == [
        (1, "one", 3),
        (2, "two", 3),
    ]
    assert sum((call.metrics for call in story.calls), Metrics()) == story.total == measure(recorder.events)


def test_a_call_that_is_tried_again_keeps_its_view_and_its_own_end() -> None:
    recorder = MemoryRecorder(captures_content=True)
    recorder.record("view", request_id="same", full_tokens=9)
    recorder.record("request", request_id="same")
    recorder.record("block", request_id="same", index=0, num_drafted=1, num_accepted=1, text="lost")
    recorder.record("error", request_id="same", error_type="Gone")
    answered(recorder, "same", "kept")
    first, second = tell(recorder.events).calls
    assert (first.ending, first.answer) == ("Gone", "lost")
    assert (second.ending, second.answer, second.full_tokens) == ("stop", "kept", 9)


def test_a_gateways_calls_of_one_id_are_told_apart() -> None:
    recorder = MemoryRecorder()
    for _ in range(2):
        recorder.record("view", request_id="same")
        recorder.record("gateway", request_id="same")
    assert len(tell(recorder.events).calls) == 2


def test_a_token_that_was_drawn_is_not_one_the_full_view_changed() -> None:
    drawn = PositionRecord(origin="plain", is_argmax=False)
    assert (drawn.is_changed, PositionRecord(origin="plain").is_changed) == (False, None)
    assert PositionRecord(origin="fused", is_argmax=False).is_changed
    recorder = MemoryRecorder(level="detail")
    recorder.record(
        "block",
        request_id="r",
        index=0,
        num_drafted=0,
        num_accepted=0,
        num_bonus=1,
        positions=[drawn.model_dump(exclude_unset=True)],
    )
    assert tell(recorder.events).calls[0].num_changed == 0


def test_a_view_that_was_never_asked_for_is_not_the_next_calls() -> None:
    recorder = MemoryRecorder()
    for name, is_refused in (("r1", False), ("r2", True), ("r3", False), ("r4", False)):
        recorder.record("view", full_tokens=int(name[1]))
        if not is_refused:
            recorder.record("request", request_id=name)
    calls = tell(recorder.events).calls
    shown = [(call.request_id, call.view.full_tokens if call.view is not None else None) for call in calls]
    assert shown[:3] == [("r1", 1), ("r3", None), ("r4", 4)]
    assert [tokens for _, tokens in shown[3:]] == [2, 3]  # by themselves


def test_what_a_large_event_lost_is_remarked(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with JSONLRecorder(path, captures_content=True, limits=RecordLimits(max_event_bytes=1_000)) as recorder:
        recorder.record("view", request_id="r", messages=[{"role": "user" * 500}])
        for index in range(2):
            recorder.record(
                "block", request_id="r", index=index, num_drafted=1, num_accepted=1, text="x" * 2_000
            )
    (call,) = read_story(path).calls
    assert remarks(call) == [
        "a view event was too large for the trace and lost messages",
        "a block event was too large for the trace and lost text",
    ]
    odd = parse_event({"event": "error", "timestamp_s": 1, "request_id": "r", "left_out": [1, "a"]})
    assert len(remarks(tell([odd]).calls[0])) == 1
