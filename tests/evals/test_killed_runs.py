"""Runs in processes of their own: killed at any moment, torn in mid-write, stopped, started twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from evals.run_folder import read_run
from tests.architecture import ROOT

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")

NUM_SAMPLES = 40
NUM_RECORDS = NUM_SAMPLES * 4


def _command(folder: Path, *more: str, seconds: float = 0.0, dies_in: int = 0) -> list[str]:
    program = [sys.executable, "-m", "tests.evals.made_up_run", str(seconds), str(dies_in)]
    return [*program, "run", "made_up", "--out", str(folder), *more]


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


@pytest.fixture
def data(tmp_path: Path) -> list[str]:
    (tmp_path / "data").write_text(str(NUM_SAMPLES))
    return ["--data", str(tmp_path / "data")]


def _check_whole(folder: Path, num_records: int = NUM_RECORDS) -> None:
    """Every sample of every cell once: a record twice, or of nothing asked, would not be read."""
    run = read_run(folder)
    assert not run.log.is_torn
    assert len(run.log.entries) == num_records
    assert run.log.entries.keys() == run.plan.keys
    assert len((folder / "records.jsonl").read_bytes().splitlines()) == num_records


def _await_records(folder: Path, process: subprocess.Popen[str], num_records: int) -> None:
    path = folder / "records.jsonl"
    while process.poll() is None:
        if path.exists() and path.read_bytes().count(b"\n") >= num_records:
            return
        time.sleep(0.002)


def test_a_run_killed_at_random_moments_loses_and_repeats_nothing(tmp_path: Path, data: list[str]) -> None:
    folder = tmp_path / "run"
    rng = random.Random(7)
    num_recorded = 0
    for _ in range(3):
        process = subprocess.Popen(_command(folder, *data, seconds=0.002), cwd=ROOT, text=True)
        _await_records(folder, process, num_recorded + rng.randint(1, 25))
        time.sleep(rng.random() * 0.02)
        process.kill()
        process.wait()
        if (folder / "run.json").exists():
            done = len(read_run(folder).log.entries)
            assert done >= num_recorded
            num_recorded = done
    assert 0 < num_recorded < NUM_RECORDS
    finished = _run(_command(folder, *data))
    assert finished.returncode == 0, finished.stderr
    _check_whole(folder)


def test_a_run_that_dies_in_the_middle_of_a_write_goes_on_from_the_record_before(
    tmp_path: Path, data: list[str]
) -> None:
    folder = tmp_path / "run"
    for dies_in, num_before in ((3, 2), (20, 21)):
        died = _run(_command(folder, *data, dies_in=dies_in))
        assert died.returncode == -signal.SIGKILL
        run = read_run(folder)
        assert run.log.is_torn
        assert len(run.log.entries) == num_before
    finished = _run(_command(folder, *data))
    assert finished.returncode == 0, finished.stderr
    _check_whole(folder)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_with_all_records_whole(
    tmp_path: Path, data: list[str], number: signal.Signals, heeded_signals: None
) -> None:
    folder = tmp_path / "run"
    process = subprocess.Popen(
        _command(folder, *data, seconds=0.005),
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _await_records(folder, process, 5)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130, told
    assert "stopped; what is recorded is whole" in told
    assert not read_run(folder).log.is_torn
    assert 5 <= len(read_run(folder).log.entries) < NUM_RECORDS


def test_two_processes_at_once_are_one_run_and_one_error(tmp_path: Path, data: list[str]) -> None:
    folder = tmp_path / "run"
    commands = [_command(folder, *data, seconds=0.01) for _ in range(2)]
    processes = [
        subprocess.Popen(command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for command in commands
    ]
    told = [process.communicate(timeout=120)[1] for process in processes]
    assert sorted(process.returncode for process in processes) == [0, 2], told
    loser = told[[process.returncode for process in processes].index(2)]
    assert "is in use by another run" in loser
    _check_whole(folder)
