"""What a trace keeps of much (long texts, large events, full files), and what it must not."""

from __future__ import annotations

import json
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.recording import Detail, detail_of, for_request
from asymspec_agents.trace import (
    BlockEvent,
    JSONLRecorder,
    MemoryRecorder,
    RecordLimits,
    Redaction,
    RequestEvent,
    TeeRecorder,
    measure,
    read_trace,
)
from asymspec_agents.trace.limits import bounded_line


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_text_chars", 10),
        ("max_event_bytes", 1.5),
        ("max_file_bytes", True),
        ("num_files", 0),
        ("num_files", None),
    ],
)
def test_limits_are_checked(field: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=field):
        RecordLimits(**{field: value})


def test_levels_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="summary"):
        JSONLRecorder(tmp_path / "t", level="much")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="num_alternatives"):
        MemoryRecorder(level="detail", num_alternatives=51)
    assert not (tmp_path / "t").exists()


def test_of_a_long_text_both_ends_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with JSONLRecorder(path, limits=RecordLimits(max_text_chars=100)) as recorder:
        recorder.record("mine", texts=["begin" + "x" * 1_000_000 + "end", "short"])
    (event,) = read_trace(path).events
    long, short = event.model_dump()["texts"]
    assert long.startswith("begin")
    assert long.endswith("end")
    assert "999,908 characters were not recorded" in long
    assert short == "short"


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).map(lambda key: "x" + key), st.text(max_size=3000), max_size=6
    ),
    st.integers(1_000, 6_000),
)
def test_a_large_event_loses_its_largest_fields_and_says_which(fields: dict[str, str], longest: int) -> None:
    data: dict[str, Any] = {"event": "mine", "timestamp_s": 1.0, **fields}
    line = bounded_line(data, RecordLimits(max_event_bytes=longest))
    assert len(line) <= longest
    kept = json.loads(line)
    left_out = kept.pop("left_out", [])
    assert kept == {key: value for key, value in data.items() if key not in left_out}
    assert not left_out or len(bounded_line(data, RecordLimits(max_event_bytes=None))) > longest


def test_a_block_without_its_positions_still_counts(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with JSONLRecorder(path, limits=RecordLimits(max_event_bytes=1_000), level="detail") as recorder:
        recorder.record(
            "block", index=0, num_drafted=3, num_accepted=3, positions=[{"origin": "accepted"}] * 500
        )
    (block,) = read_trace(path).events
    assert isinstance(block, BlockEvent)
    assert block.positions is None
    assert block.model_dump()["left_out"] == ["positions"]
    assert measure([block]).num_accepted == 3


def test_files_rotate_and_each_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    limits = RecordLimits(max_file_bytes=10_000, num_files=3)
    with JSONLRecorder(path, limits=limits, captures_content=True) as recorder:
        for index in range(100):
            recorder.record("text", digest="d", text="the same each time")
            recorder.record("view", index=index, padding="x" * 900)
    assert recorder.num_dropped == 0
    names = sorted(file.name for file in tmp_path.iterdir())
    assert names == ["t.jsonl", "t.jsonl.1", "t.jsonl.2"]
    indices: list[int] = []
    for name in ("t.jsonl.2", "t.jsonl.1", "t.jsonl"):
        assert (tmp_path / name).stat().st_size <= 10_000
        assert (tmp_path / name).stat().st_mode & 0o077 == 0
        trace = read_trace(tmp_path / name)
        assert trace.notes == ()
        kinds = [event.event for event in trace.events]
        assert kinds.count("text") == 1  # whatever a file's views name stands in it
        indices += [event.model_dump()["index"] for event in trace.events if event.event == "view"]
    assert indices == list(range(100 - len(indices), 100))


def test_one_file_alone_is_begun_anew(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with JSONLRecorder(path, limits=RecordLimits(max_file_bytes=10_000, num_files=1)) as recorder:
        for index in range(50):
            recorder.record("view", index=index, padding="x" * 900)
    assert [file.name for file in tmp_path.iterdir()] == ["t.jsonl"]
    assert read_trace(path).events[-1].model_dump()["index"] == 49


def test_rotation_loses_nothing_where_threads_write(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with JSONLRecorder(path, limits=RecordLimits(max_file_bytes=10_000, num_files=1_000)) as recorder:

        def write(name: str) -> None:
            for index in range(100):
                recorder.record("view", name=name, index=index, padding="x" * 300)

        threads = [threading.Thread(target=write, args=(name,)) for name in "abc"]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    found = [event.model_dump() for file in tmp_path.iterdir() for event in read_trace(file).events]
    assert sorted((event["name"], event["index"]) for event in found) == [
        (name, index) for name in "abc" for index in range(100)
    ]


def test_events_belong_to_the_request_that_work_is_done_for() -> None:
    memory = MemoryRecorder()
    with for_request("r1"):
        memory.record("view")
        memory.record("view", request_id="other")
        with for_request("r2"):
            memory.record("view")
        memory.record("view")
    memory.record("view")
    assert [event.request_id for event in memory.events] == ["r1", "other", "r2", "r1", None]


def test_a_tee_gives_positions_to_those_that_want_them() -> None:
    detail, plain = MemoryRecorder(level="detail", num_alternatives=7), MemoryRecorder()
    tee = TeeRecorder(detail, plain)
    assert detail_of(tee) == Detail(7)
    assert detail_of(TeeRecorder(plain)) is None
    tee.record("block", index=0, num_drafted=1, num_accepted=1, positions=[{"origin": "accepted"}])
    first, second = detail.events[0], plain.events[0]
    assert isinstance(first, BlockEvent)
    assert isinstance(second, BlockEvent)
    assert first.positions is not None
    assert second.positions is None


SECRET = "sk-abcdef123456"


def redacted_lines(tmp_path: Path, redaction: Redaction) -> str:
    path = tmp_path / "t.jsonl"
    with JSONLRecorder(path, captures_content=True, level="detail", redaction=redaction) as recorder:
        recorder.record("text", digest="d" * 64, text=f"the key is {SECRET}, keep it")
        recorder.record("view", messages=[{"role": "user", "parts": [{"digest": "d" * 64, "num_chars": 9}]}])
        for index, piece in enumerate(re.findall("..?.?.?", SECRET)):  # no piece matches the pattern
            recorder.record(
                "block",
                index=index,
                num_drafted=1,
                num_accepted=1,
                text=piece,
                token_ids=[index],
                positions=[
                    {
                        "origin": "accepted",
                        "p_t": 0.5,
                        "text": piece,
                        "token_id": index,
                        "argmax": piece,
                        "best_t": [[0.5, index, piece]],
                    }
                ],
            )
        recorder.record("response", num_tokens=4, text=f"Use {SECRET} now")
        recorder.record("error", message=f"refused: {SECRET}")
    assert recorder.num_dropped == 0
    return path.read_text()


@pytest.mark.parametrize(
    "redaction",
    [
        Redaction(patterns=(r"sk-\w+",)),
        Redaction(patterns=(re.compile(r"sk-\w+"),)),
        Redaction(functions=(lambda text: text.replace(SECRET, "[redacted]"),)),
    ],
    ids=["pattern", "compiled", "function"],
)
def test_a_secret_is_nowhere_even_in_pieces(tmp_path: Path, redaction: Redaction) -> None:
    lines = redacted_lines(tmp_path, redaction)
    for piece in (SECRET, "sk-a", "bcde", "f123"):
        assert piece not in lines
    events = read_trace(tmp_path / "t.jsonl").events
    assert events[0].model_dump()["text"] == "the key is [redacted], keep it"
    assert events[0].model_dump()["digest"] == "d" * 64
    blocks = [event for event in events if isinstance(event, BlockEvent)]
    for block in blocks:
        assert block.token_ids is None
        assert block.positions is not None
        (position,) = block.positions
        assert (position.p_t, position.best_t) == (0.5, ((0.5,),))
        assert position.text is position.token_id is None
    assert events[-2].model_dump()["text"] == "Use [redacted] now"
    assert measure(events).num_accepted == len(blocks)


def test_a_redaction_that_fails_loses_the_event_not_the_secret(tmp_path: Path) -> None:
    def fails(text: str) -> str:
        if SECRET in text:
            raise RuntimeError("no")
        return text

    path = tmp_path / "t.jsonl"
    for function in (fails, lambda text: None):
        with JSONLRecorder(path, redaction=Redaction(functions=(function,))) as recorder:  # type: ignore[arg-type]
            recorder.record("mine", text=SECRET)
        assert recorder.num_dropped == 1
    assert path.read_text() == ""


@pytest.mark.parametrize(
    "fields", [{"patterns": "abc"}, {"patterns": ("(",)}, {"functions": len}, {"functions": ("no",)}]
)
def test_what_is_no_redaction_is_refused(fields: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"patterns|functions"):
        Redaction(**fields)


def test_a_redactions_own_error_quotes_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def fails(text: str) -> str:
        raise ValueError(f"cannot parse {text}")

    with JSONLRecorder(tmp_path / "t.jsonl", redaction=Redaction(functions=(fails,))) as recorder:
        recorder.record("mine", text=SECRET)
    assert recorder.num_dropped == 1
    assert "a redaction failed with ValueError" in caplog.text
    assert SECRET not in caplog.text


def test_a_redaction_changes_contents_not_the_words_of_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    redaction = Redaction(patterns=(r"[a-z]+",), functions=(str.upper,))
    with JSONLRecorder(path, captures_content=True, level="detail", redaction=redaction) as recorder:
        recorder.record("request", arm="asymspec", mode="scaled", gate="jsd", delta="context", bonus="rule")
        recorder.record(
            "block",
            index=0,
            num_drafted=1,
            num_accepted=1,
            positions=[{"origin": "accepted"}],
            origins=["fused"],
        )
        recorder.record("response", text="a secret")
    request, block, response = read_trace(path).events
    assert isinstance(request, RequestEvent)
    assert (request.arm, request.mode, request.gate) == ("asymspec", "scaled", "jsd")
    assert (request.delta, request.bonus) == ("context", "rule")
    assert isinstance(block, BlockEvent)
    assert block.positions is not None
    assert (block.positions[0].origin, block.origins) == ("accepted", ("fused",))
    assert response.model_dump()["text"] == "[REDACTED] [REDACTED]"
