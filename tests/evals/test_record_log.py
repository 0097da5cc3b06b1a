"""A file of records survives every stop, and says what is wrong with it otherwise."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError
from evals.record_log import RecordWriter, read_at, scan
from evals.records import Failure, Output, Record, Score


def _record(sample: str = "q0", **fields: Any) -> Record:
    given: dict[str, Any] = {"output": Output(answer="é\u2028 x"), "score": Score(values={"right": 1.0})}
    return Record(suite="s", cell="ceiling", sample=sample, **{**given, **fields})


def _write(path: Path, *records: Record) -> None:
    writer = RecordWriter(path)
    for record in records:
        writer.append(record)
    writer.close()


def _read(path: Path) -> list[Record]:
    return list(read_at(path, iter(scan(path).entries.values())))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "r"
    odd = Score(values={"right": 0.1}, details={"text": "\ud800 line\nend\r", "none": None, "list": [1, "ü"]})
    records = [_record("a"), _record("b", score=odd), _record("c", output=None, score=None)]
    _write(path, *records)
    assert _read(path) == records
    assert path.read_bytes().count(b"\n") == 3


def test_no_file_is_no_record(tmp_path: Path) -> None:
    assert scan(tmp_path / "none").entries == {}


def test_a_line_torn_at_any_byte_is_no_record_and_goes_on_writing(tmp_path: Path) -> None:
    path = tmp_path / "r"
    first, second = _record("a"), _record("b", output=Output(answer="2"))
    _write(path, first, second)
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    for end in range(start, len(whole)):
        path.write_bytes(whole[:end])
        log = scan(path)
        assert (list(log.entries), log.num_bytes, log.is_torn) == ([first.key], start, end > start)
        assert path.read_bytes() == whole[:end]  # reading changes nothing
        if end % 40 == 0 or end == len(whole) - 1:
            _write(path, second)
            assert path.read_bytes() == whole


@pytest.mark.parametrize("tail", [b"\0" * 40 + b"\n", b"{\n", b'{"suite": "s"}', b"\xff\xfe\n", b"\n"])
def test_a_last_line_of_anything_is_torn(tmp_path: Path, tail: bytes) -> None:
    path = tmp_path / "r"
    _write(path, _record("a"))
    whole = path.read_bytes()
    path.write_bytes(whole + tail)
    assert scan(path).is_torn
    _write(path, _record("b"))
    assert [record.sample for record in _read(path)] == ["a", "b"]


@pytest.mark.parametrize("line", [b"{", b"", b"\xff", b"[" * 100_000])
def test_an_unreadable_line_in_the_middle_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "r"
    _write(path, _record("a"))
    whole = path.read_bytes()
    path.write_bytes(whole + line + b"\n" + whole.replace(b'"a"', b'"b"'))
    with pytest.raises(ConfigurationError, match=r"r, line 2 can't be read .*asked again"):
        scan(path)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"suite": "s", "sample": "x"}', "cell: Field required"),
        ("[1]", "it: Input should be"),
        ('{"suite": "s", "sample": "x", "cell": "c", "colour": 1}', "colour: Extra inputs"),
    ],
)
def test_json_that_is_no_record_is_named_even_at_the_end(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "r"
    path.write_text(line + "\n")
    with pytest.raises(ConfigurationError, match=f"line 1 is no record: {problem}"):
        scan(path)


def test_a_later_version_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "r"
    failed = _record(
        "a", output=None, score=None, failure=Failure(stage="answer", error_type="E", message="m")
    )
    _write(path, failed, _record("b"), _record("a", version=2), _record("a", version=3, score=None))
    log = scan(path)
    assert [(key[1], entry.version, entry.values) for key, entry in log.entries.items()] == [
        ("a", 3, None),
        ("b", 1, {"right": 1.0}),
    ]
    assert [record.version for record in _read(path)] == [3, 1]


def test_a_record_twice_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "r"
    _write(path, _record("b"), _record("a"))
    path.write_bytes(path.read_bytes() * 2)
    with pytest.raises(
        ConfigurationError, match=r"line 3: s · b · ceiling as version 1, already .* in line 1"
    ):
        scan(path)


def test_a_version_without_the_one_before_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "r"
    path.write_text(json.dumps(_record("a", version=2).model_dump()) + "\n")
    with pytest.raises(ConfigurationError, match="version 2, without the versions before it"):
        scan(path)


def test_a_writer_refuses_what_would_stand_twice(tmp_path: Path) -> None:
    writer = RecordWriter(tmp_path / "r")
    writer.append(_record("a"))
    for version in (1, 3):
        with pytest.raises(ConfigurationError, match="s · a · ceiling is already recorded"):
            writer.append(_record("a", version=version))
    writer.close()
    assert len(_read(tmp_path / "r")) == 1


def test_a_full_disk_leaves_the_records_before_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r"
    writer = RecordWriter(path)
    writer.append(_record("a"))
    write, left = os.write, [100]

    def full(handle: int, data: bytes) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        count = write(handle, data[: left[0]])
        left[0] -= count
        return count

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left on device; the records before are whole") as caught:
        writer.append(_record("b"))
    assert caught.value.filename == str(path)
    assert caught.value.errno == errno.ENOSPC
    monkeypatch.undo()
    assert not scan(path).is_torn
    writer.append(_record("b"))  # there is room again
    writer.close()
    assert [record.sample for record in _read(path)] == ["a", "b"]


def test_a_write_in_pieces_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda handle, data: write(handle, data[:7]))
    _write(tmp_path / "r", _record("a"), _record("b"))
    monkeypatch.undo()
    assert _read(tmp_path / "r") == [_record("a"), _record("b")]


def test_a_file_changed_by_others_stops_the_writer(tmp_path: Path) -> None:
    path = tmp_path / "r"
    writer = RecordWriter(path)
    writer.append(_record("a"))
    with path.open("ab") as file:
        file.write(b"{}\n")
    with pytest.raises(ConfigurationError, match="was changed while the run wrote it"):
        writer.append(_record("b"))
    writer.close()
