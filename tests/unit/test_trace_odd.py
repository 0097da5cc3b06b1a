"""Traces that nobody would write: numbers that are none or too large, files named twice, marks and modes."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from asymspec_agents.trace import JSONLRecorder, OtherEvent, ResponseEvent, parse_event, read_trace
from asymspec_agents.trace.story import read_story
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
