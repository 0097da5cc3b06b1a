"""Traces: events survive a file, recorders never raise, and metrics are sums."""

from __future__ import annotations

import json
import logging
import math
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.trace import (
    BlockEvent,
    ErrorEvent,
    Event,
    JSONLRecorder,
    MemoryRecorder,
    OtherEvent,
    RequestEvent,
    ResponseEvent,
    RoleTokens,
    TeeRecorder,
    dump_event,
    parse_event,
    read_trace,
)
from asymspec_agents.trace.plain import plain_json

texts = st.text(st.characters(codec=None, categories=None))  # lone surrogates and NUL included
seconds = st.floats(0, 1e6)
counts = st.integers(0, 10**6)
roles = st.fixed_dictionaries({}, optional=dict.fromkeys(("verifier", "base", "drafter"), counts))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
unknown = st.dictionaries(st.text().map(lambda name: "x" + name), values, max_size=3)
requests = st.sampled_from(["r1", "r2", "r\ud800"])


def _fields(draw: st.DrawFn, kind: str) -> dict[str, Any]:
    match kind:
        case "request":
            return {"prompt_tokens": draw(roles), "cached_tokens": draw(roles), "beta": draw(seconds)}
        case "block":
            return {
                "index": draw(counts),
                "num_drafted": draw(st.integers(0, 9)),
                "num_accepted": draw(st.integers(0, 9)),
                "num_fused": draw(st.integers(0, 1)),
                "divergence": draw(st.lists(st.floats(0, math.log(2)), max_size=9)),
                "text": draw(texts),
            }
        case "response":
            return {
                "num_tokens": draw(counts),
                "elapsed_s": draw(seconds),
                "time_to_first_token_s": draw(st.none() | seconds),
                "forwarded_tokens": draw(roles),
            }
        case "view":
            return {"full_tokens": draw(counts), "compressed_tokens": draw(counts)}
        case _:
            return {"message": draw(texts), "reason": draw(texts)}


@st.composite
def recorded(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    kind = draw(st.sampled_from(["request", "block", "response", "view", "error", "compress", "of my own"]))
    return kind, {**draw(unknown), **_fields(draw, kind), "request_id": draw(requests), "timestamp_s": 1.5}


def remember(records: list[tuple[str, dict[str, Any]]]) -> tuple[Event, ...]:
    memory = MemoryRecorder()
    for kind, fields in records:
        memory.record(kind, **fields)
    assert memory.num_dropped == 0
    return memory.events


@given(st.lists(recorded(), max_size=6))
def test_events_survive_a_file_unknown_fields_included(
    tmp_path_factory: pytest.TempPathFactory, records: list[tuple[str, dict[str, Any]]]
) -> None:
    path = tmp_path_factory.mktemp("trace") / "trace.jsonl"
    with JSONLRecorder(path) as recorder:
        for kind, fields in records:
            recorder.record(kind, **fields)
    assert recorder.num_dropped == 0
    trace = read_trace(path)
    assert trace.events == remember(records)
    assert trace.notes == ()
    for event, (kind, fields) in zip(trace.events, records, strict=True):
        assert parse_event(json.loads(dump_event(event))) == event
        dumped = event.model_dump()
        assert dumped["event"] == kind
        assert fields.keys() <= dumped.keys()


def test_a_typed_event_made_by_hand_survives_too() -> None:
    event = RequestEvent(timestamp_s=2.0, arm="asymspec", seed=(1, 2), limit=math.inf)
    assert parse_event(json.loads(dump_event(event))) == event
    assert type(event) is RequestEvent


def test_every_line_is_strict_json(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with JSONLRecorder(path) as recorder:
        recorder.record(
            "block", index=0, num_drafted=3, num_accepted=0, divergence=[math.nan, 0.5], text="\ud83d"
        )
        recorder.record("mine", odd={1: {2, 3}, None: b"bytes"}, line="a\nb\u2028c", count=np.int64(7))

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    lines = path.read_bytes().decode("ascii").split("\n")
    assert lines.pop() == ""
    first, second = (json.loads(line, parse_constant=refuse) for line in lines)
    assert first["text"] == "\ud83d"
    assert second["odd"] == {"1": [2, 3], "None": "<bytes>"}
    assert second["count"] == 7
    block = read_trace(path).events[0]
    assert isinstance(block, BlockEvent)
    assert math.isnan(block.divergence[0])
    assert block.divergence[1] == 0.5


class Hostile:
    """Fails in every way a value can."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __repr__(self) -> str:
        raise RuntimeError("repr")


def test_recorders_take_any_value_without_raising(tmp_path: Path) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with JSONLRecorder(tmp_path / "t.jsonl") as file:
        tee = TeeRecorder(file, memory := MemoryRecorder())
        tee.record(
            "odd", value=Hostile(), loop=loop, huge=10**9999, array=np.ones((2, 2)), event="x", path=tmp_path
        )
    assert file.num_dropped == memory.num_dropped == 0
    (event,) = read_trace(tmp_path / "t.jsonl").events
    assert event == memory.events[0]
    data = event.model_dump()
    assert data["event"] == "odd"
    assert data["value"] == "<Hostile>"
    assert data["array"] == [[1.0, 1.0], [1.0, 1.0]]


@given(values)
def test_plain_values_are_made_plain_once(value: Any) -> None:
    once = plain_json(value)
    assert plain_json(once) == once
    assert json.loads(json.dumps(once, allow_nan=False)) == once


def test_an_unusable_event_is_counted_not_raised() -> None:
    memory = MemoryRecorder()
    memory.record("request", request_id=5)
    memory.record("request", timestamp_s="now")
    assert (memory.events, memory.num_dropped) == ((), 2)


def test_a_known_event_with_wrong_fields_is_kept_and_noted(tmp_path: Path) -> None:
    with JSONLRecorder(tmp_path / "t.jsonl") as recorder:
        recorder.record("block", index=0, num_drafted=-1, num_accepted=0)
        recorder.record("from the future", n=1)
    trace = read_trace(tmp_path / "t.jsonl")
    assert [type(event) for event in trace.events] == [OtherEvent, OtherEvent]
    assert trace.notes == ("line 1: a malformed block event, not counted",)


def test_a_line_cut_short_is_noted_and_the_next_writer_starts_afresh(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with JSONLRecorder(path) as recorder:
        recorder.record("view", num_edits=1)
        recorder.record("view", num_edits=2)
    path.write_bytes(path.read_bytes()[:-7])
    trace = read_trace(path)
    assert len(trace.events) == 1
    assert trace.notes == ("line 2, the last, was cut short and is left out",)
    with JSONLRecorder(path) as recorder:
        recorder.record("view", num_edits=3)
    trace = read_trace(path)
    assert [event.model_dump()["num_edits"] for event in trace.events] == [1, 3]
    assert trace.notes == ("line 2 is left out: not JSON",)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"[1]\n", "not a JSON object"),
        (b"\xff{}\n", "not JSON"),
        (b'{"timestamp_s":1}\n', "event: Field required"),
        (b"[" * 200_000 + b"\n", "not JSON"),
    ],
)
def test_lines_that_are_no_event_are_noted(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'\n{"event":"view","timestamp_s":1}\r\n' + line)
    trace = read_trace(path)
    assert len(trace.events) == 1
    assert trace.notes == (f"line 3 is left out: {reason}",)


class FullDisk:
    """A file that takes a few bytes, then none."""

    def __init__(self, room: int) -> None:
        self.room, self.data = room, b""

    def write(self, line: bytes) -> int:
        if not self.room:
            raise OSError(28, "No space left on device")
        taken = line[: self.room]
        self.room -= len(taken)
        self.data += taken
        return len(taken)

    def close(self) -> None:
        pass


def test_a_full_disk_is_counted_and_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    recorder = JSONLRecorder(tmp_path / "t.jsonl")
    recorder.close()
    recorder._file = disk = FullDisk(room=20)  # type: ignore[assignment]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            recorder.record("view", num_edits=1)
    assert recorder.num_dropped == 3
    (warning,) = caplog.records
    assert "only 20 of" in warning.getMessage()
    disk.room = 1000
    recorder.record("view", num_edits=9)
    broken, whole = disk.data.splitlines()
    assert len(broken) == 20
    assert json.loads(whole)["num_edits"] == 9


def test_recording_after_close_is_counted(tmp_path: Path) -> None:
    with JSONLRecorder(tmp_path / "t.jsonl") as recorder:
        pass
    recorder.record("view")
    assert recorder.num_dropped == 1


def test_a_path_that_cannot_be_opened_is_an_error_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="missing"):
        JSONLRecorder(tmp_path / "missing" / "t.jsonl")
    with pytest.raises(ConfigurationError, match="null"):
        JSONLRecorder("a\0b")


def test_a_file_of_contents_is_private(tmp_path: Path) -> None:
    JSONLRecorder(tmp_path / "counts").close()
    JSONLRecorder(tmp_path / "contents", captures_content=True).close()
    assert (tmp_path / "contents").stat().st_mode & 0o077 == 0


def test_threads_do_not_mix_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with JSONLRecorder(path) as one, JSONLRecorder(path) as other:

        def write(recorder: JSONLRecorder, name: str) -> None:
            for index in range(100):
                recorder.record("view", name=name, index=index, padding="x" * 500)

        threads = [
            threading.Thread(target=write, args=(recorder, name))
            for recorder, name in ((one, "a"), (one, "b"), (other, "c"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    trace = read_trace(path)
    assert trace.notes == ()
    for name in "abc":
        own = [e.model_dump()["index"] for e in trace.events if e.model_dump()["name"] == name]
        assert own == list(range(100))


def test_a_tee_stamps_once_and_captures_contents_only_if_all_do() -> None:
    first, second = (
        MemoryRecorder(clock=lambda: 1.0),
        MemoryRecorder(captures_content=True, clock=lambda: 2.0),
    )
    tee = TeeRecorder(first, second, clock=lambda: 3.0)
    tee.record("view")
    assert first.events == second.events
    assert first.events[0].timestamp_s == 3.0
    assert not tee.captures_content
    assert TeeRecorder(second, second).captures_content
    assert not TeeRecorder().captures_content
    first.clear()
    assert first.events == ()


def test_a_model_may_stand_where_a_dict_may() -> None:
    memory = MemoryRecorder()
    memory.record("request", prompt_tokens=RoleTokens(verifier=3), odd=[RoleTokens(base=1)])
    (event,) = memory.events
    assert isinstance(event, RequestEvent)
    assert event.prompt_tokens == RoleTokens(verifier=3)
    assert event.model_dump()["odd"] == [{"base": 1}]


def test_typed_events_know_their_kind() -> None:
    assert ErrorEvent(timestamp_s=0).event == "error"
    assert json.loads(dump_event(ResponseEvent(timestamp_s=0, num_tokens=3))) == {
        "timestamp_s": 0.0,
        "num_tokens": 3,
        "event": "response",
    }
