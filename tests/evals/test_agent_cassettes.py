"""Cassettes: what was recorded is replayed, whatever happens to the file and whoever else writes into it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from evals.agents.cassettes import (
    Cassette,
    CassetteMode,
    ToolFailedError,
    UnknownRequestError,
    request_key,
)

texts = st.text(st.characters(), max_size=30)
arguments = st.dictionaries(texts, texts | st.integers() | st.none() | st.booleans(), max_size=3)


def never() -> str:
    raise AssertionError("asked live")


def says(text: str) -> Callable[[], str]:
    return lambda: text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "web.jsonl"


@given(st.lists(st.tuples(texts, arguments, texts), max_size=6), st.data())
def test_what_is_recorded_is_replayed(
    tmp_path_factory: pytest.TempPathFactory,
    requests: list[tuple[str, dict[str, str], str]],
    data: st.DataObject,
) -> None:
    path = tmp_path_factory.mktemp("cassette") / "web.jsonl"
    path.touch()
    recorder = Cassette(path, "record-missing")
    first: dict[str, str] = {}
    for tool, given_arguments, answer in requests:
        expected = first.setdefault(request_key(tool, given_arguments), answer)
        assert recorder.play(tool, given_arguments, says(answer)).text == expected
    if data.draw(st.booleans(), label="a torn end"):
        with path.open("ab") as file:
            file.write(b'{"version": 1, "tool": "sear')
    replayed = Cassette(path)
    assert len(replayed) == len(first)
    for tool, given_arguments, _ in requests:
        played = replayed.play(tool, given_arguments, never)
        assert (played.text, played.source) == (first[request_key(tool, given_arguments)], "replayed")


@given(arguments)
def test_keys_are_plain_and_stable(given_arguments: dict[str, str]) -> None:
    key = request_key("tool", given_arguments)
    assert key.isascii()
    assert key == request_key("tool", dict(reversed(given_arguments.items())))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ada  Lovelace\n", "Ada Lovelace"),
        ("Ame\u0301lie", "Am\u00e9lie"),
        ("HTTPS://Example.ORG:443", "https://example.org/"),
        ("https://example.org/a#part", "https://example.org/a"),
        ("https://me:secret@example.org/a", "https://example.org/a"),
    ],
)
def test_spellings_of_one_request_have_one_key(one: str, other: str) -> None:
    assert request_key("t", {"x": one}) == request_key("t", {"x": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ada", "Ada"),
        ("https://example.org/A", "https://example.org/a"),
        ("https://example.org/?a=1", "https://example.org/?a=2"),
        ("http://example.org/", "https://example.org/"),
        ("https://example.org:8443/", "https://example.org/"),
    ],
)
def test_different_requests_have_different_keys(one: str, other: str) -> None:
    assert request_key("t", {"x": one}) != request_key("t", {"x": other})
    assert request_key("t", {"x": one}) != request_key("u", {"x": one})


@pytest.mark.parametrize("url", ["https://me:secret@example.org/", "https://me:secret@[bad/"])
def test_no_password_is_written(path: Path, url: str) -> None:
    Cassette(path, "record-missing").play("visit_page", {"url": url}, says("page"))
    assert "secret" not in path.read_text()


def test_a_replay_asks_nobody(path: Path) -> None:
    Cassette(path, "record-missing").play("search", {"query": "known"}, says("answer"))
    replay = Cassette(path)
    before = path.read_bytes()
    with pytest.raises(UnknownRequestError, match="search has no recorded answer"):
        replay.play("search", {"query": "unknown"}, never)
    assert path.read_bytes() == before


def test_failures_are_replayed_too(path: Path) -> None:
    def fails() -> str:
        raise ToolFailedError("it is gone")

    recorded = Cassette(path, "record-missing").play("visit_page", {"url": "https://a.example/"}, fails)
    replayed = Cassette(path).play("visit_page", {"url": "https://a.example/"}, never)
    assert recorded.is_error
    assert (replayed.text, replayed.is_error) == ("it is gone", True)


def test_other_exceptions_leave_no_trace(path: Path) -> None:
    def breaks() -> str:
        raise RuntimeError("a bug")

    cassette = Cassette(path, "record-missing")
    with pytest.raises(RuntimeError):
        cassette.play("search", {"query": "x"}, breaks)
    assert not path.exists()


def test_recording_anew_asks_once_and_replaces(path: Path) -> None:
    Cassette(path, "record").play("search", {"query": "x"}, says("old"))
    again = Cassette(path, "record")
    assert again.play("search", {"query": "x"}, says("new")).source == "recorded"
    assert again.play("search", {"query": "x"}, never).text == "new"
    assert Cassette(path).play("search", {"query": "x"}, never).text == "new"
    assert len(path.read_text().splitlines()) == 2


def test_of_two_recorders_the_first_answer_counts(path: Path) -> None:
    one, two = Cassette(path, "record-missing"), Cassette(path, "record-missing")
    assert one.play("search", {"query": "x"}, says("first")).text == "first"
    assert two.play("search", {"query": "x"}, says("second")).text == "first"

    slow = Cassette(path, "record-missing")

    def overtaken() -> str:
        one.play("search", {"query": "y"}, says("faster"))
        return "slower"

    assert slow.play("search", {"query": "y"}, overtaken).text == "faster"
    assert len(path.read_text().splitlines()) == 2


def test_threads_record_whole_lines(path: Path) -> None:
    cassette = Cassette(path, "record-missing")

    def work(number: int) -> None:
        for at in range(8):
            cassette.play("search", {"query": str(at)}, says(f"{number}-{at}"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert sorted(line["arguments"]["query"] for line in lines) == [str(at) for at in range(8)]


WRITER = """
import sys
from evals.agents.cassettes import Cassette
cassette = Cassette(sys.argv[1], "record-missing")
for at in range(20):
    cassette.play("search", {"query": str(at)}, lambda: sys.argv[2] * 3000)
"""


def test_processes_record_whole_lines(path: Path) -> None:
    root = Path(__file__).parents[2]
    running = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path), name],
            cwd=root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(root), str(root / "integrations")])},
        )
        for name in ("a", "b")
    ]
    assert [process.wait(60) for process in running] == [0, 0]
    cassette = Cassette(path)
    assert (len(cassette), cassette.num_unreadable) == (20, 0)
    assert len(path.read_text().splitlines()) == 20


def test_a_torn_line_is_passed_over_and_what_follows_counts(path: Path) -> None:
    Cassette(path, "record-missing").play("search", {"query": "x"}, says("kept"))
    whole = path.read_bytes()
    path.write_bytes(whole + whole[: len(whole) // 2])
    torn = Cassette(path, "record-missing")
    torn.play("search", {"query": "y"}, says("after"))
    replay = Cassette(path)
    assert replay.num_unreadable == 1
    assert replay.play("search", {"query": "x"}, never).text == "kept"
    assert replay.play("search", {"query": "y"}, never).text == "after"


@pytest.mark.parametrize(
    "line", [b"nonsense", b"[]", b'{"version": 2}', b'{"version": 1, "tool": 3}', b"\xff\xfe", b"null"]
)
def test_other_lines_are_counted(path: Path, line: bytes) -> None:
    path.write_bytes(line + b"\n")
    assert Cassette(path).num_unreadable == 1


def test_a_line_says_what_was_asked_and_when(path: Path) -> None:
    def now() -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)

    Cassette(path, "record-missing", now=now).play("search", {"query": " x "}, says("\ud800 text"))
    assert json.loads(path.read_text()) == {
        "version": 1,
        "tool": "search",
        "arguments": {"query": "x"},
        "outcome": "result",
        "text": "\ud800 text",
        "recorded_at": "2026-01-02T03:04:05+00:00",
    }


def test_a_replay_needs_a_file(path: Path) -> None:
    with pytest.raises(ConfigurationError, match="is no file; record one first"):
        Cassette(path)


def test_modes_are_checked(path: Path) -> None:
    mode: CassetteMode = "rewind"  # type: ignore[assignment]
    with pytest.raises(ConfigurationError, match="mode='rewind' must be one of"):
        Cassette(path, mode)
