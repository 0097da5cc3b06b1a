"""What a run records: every sample of every cell once, failures too; retries and new scores replace them."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError, MissingDependencyError
from evals.records import Output, Score
from evals.run_folder import RunFolder, read_run
from evals.runner import rescore, run
from evals.sample import Sample
from evals.suite import Judge
from tests.evals.made_up import MadeSystem, MadeUp, MadeUpJudged
from tests.evals.runner_fixtures import CELLS, Judging, Watch, job_of, made_folder, raises, records_of


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with made_folder(tmp_path / "run") as folder:
        yield folder


def test_samples_come_first_and_cells_within_them(folder: RunFolder) -> None:
    system, watch = MadeSystem({"floor": lambda sample: "no"}), Watch()
    run(folder, [job_of(2)], system, watch)
    order = [(sample, str(cell)) for sample in ("q0", "q1") for cell in CELLS]
    assert system.asked == order
    assert [(sample, cell) for sample, cell, _ in watch.values] == order
    assert [value for _, _, value in watch.values] == [0.0, 1.0, 1.0] * 2
    record = records_of(folder)["q1", "floor on head@0.5"]
    assert record.groups == {"parity": "odd"}
    assert record.score is not None
    assert record.finished_at.endswith("+00:00")


def test_what_is_recorded_is_not_asked_again(folder: RunFolder) -> None:
    run(folder, [job_of(2)], MadeSystem(), Watch())
    system = MadeSystem()
    run(folder, [job_of(3)], system, Watch())
    assert {sample for sample, _ in system.asked} == {"q2"}
    assert len(records_of(folder)) == 9


def test_a_failing_arm_is_recorded_and_the_others_go_on(folder: RunFolder) -> None:
    broken = MadeSystem(
        {"drafter": raises(RuntimeError("no memory\ud800")), "ceiling": raises(SystemExit(3))}
    )
    watch = Watch()
    run(folder, [job_of(3)], broken, watch)
    records = records_of(folder)
    assert len(records) == 9
    failure = records["q1", "drafter"].failure
    assert failure is not None
    assert (failure.stage, failure.error_type) == ("answer", "RuntimeError")
    assert failure.message.startswith("no memory\ufffd (runner_fixtures.py, line ")
    exited = records["q1", "ceiling"].failure
    assert exited is not None
    assert exited.error_type == "SystemExit"
    assert records["q1", "floor on head@0.5"].failure is None
    suite = MadeUp()
    of_drafter = [record for record in records.values() if record.cell == "drafter"]
    assert suite.figure(of_drafter).value == 0.0
    assert len(of_drafter) == 3


@pytest.mark.parametrize(
    ("score", "told"),
    [
        (Score(values={}), "right=None"),
        (Score(values={"right": float("nan")}), "right=nan"),
        (Score(values={"right": 2.0}), "right=2.0"),
        (Score(values={"right": 1.0}, details={"x": object()}), "not JSON serializable"),
    ],
)
def test_a_score_that_says_nothing_is_a_failure_beside_the_output(
    folder: RunFolder, score: Score, told: str
) -> None:
    class Odd(MadeUp):
        def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
            return score

    run(folder, [job_of(1, Odd())], MadeSystem(), Watch())
    for record in records_of(folder).values():
        assert record.output is not None
        assert record.score is None
        assert record.failure is not None
        assert record.failure.stage == "score"
        assert told in record.failure.message


def test_an_output_that_can_not_be_written_is_a_failure(folder: RunFolder) -> None:
    class Odd(MadeUp):
        def answer(self, sample: Sample, asker: Any) -> Output:
            return Output(answer="", trajectory=({"step": object()},))

    run(folder, [job_of(1, Odd())], MadeSystem(), Watch())
    failures = [record.failure for record in records_of(folder).values()]
    assert [failure.stage if failure else None for failure in failures] == ["answer"] * 3


def test_a_missing_package_stops_the_run(folder: RunFolder) -> None:
    with pytest.raises(MissingDependencyError):
        run(
            folder,
            [job_of(2)],
            MadeSystem({"floor": raises(MissingDependencyError("bm25s", "compress"))}),
            Watch(),
        )
    assert not records_of(folder)


def test_a_retry_asks_again_what_failed_and_only_that(folder: RunFolder) -> None:
    run(folder, [job_of(3)], MadeSystem({"drafter": raises(RuntimeError("once"))}), Watch())
    system = MadeSystem()
    run(folder, [job_of(3)], system, Watch())
    assert not system.asked
    run(folder, [job_of(3)], system, Watch(), retry_failed=True)
    assert system.asked == [(f"q{number}", "drafter") for number in range(3)]
    records = records_of(folder)
    assert len(records) == 9
    assert all(record.failure is None for record in records.values())
    assert {record.version for record in records.values() if record.cell == "drafter"} == {2}
    assert len((folder.path / "records.jsonl").read_bytes().splitlines()) == 12
    run(folder, [job_of(3)], system, Watch(), retry_failed=True)
    assert len(system.asked) == 3


def test_a_judges_failure_keeps_the_output_and_a_retry_only_scores(folder: RunFolder) -> None:
    run(folder, [job_of(2, MadeUpJudged(), Judging(ValueError("unreadable")))], MadeSystem(), Watch())
    records = records_of(folder)
    assert {record.failure.stage for record in records.values() if record.failure} == {"score"}
    assert all(record.output is not None for record in records.values())
    system, judge = MadeSystem(), Judging("YES")
    run(folder, [job_of(2, MadeUpJudged(), judge)], system, Watch(), retry_failed=True)
    assert not system.asked
    assert judge.num_asked == 6
    assert {record.score.values["right"] for record in records_of(folder).values() if record.score} == {1.0}


def test_a_suite_that_needs_a_judge_has_one() -> None:
    with pytest.raises(ConfigurationError, match="'made_up_judged' is graded by a judge, and there is none"):
        job_of(1, MadeUpJudged())


def test_scoring_anew_asks_nobody_and_records_what_changed(folder: RunFolder) -> None:
    run(
        folder,
        [job_of(2)],
        MadeSystem({"floor": lambda sample: "no", "drafter": raises(RuntimeError())}),
        Watch(),
    )
    rescore(folder, [job_of(2)], Watch())
    assert len((folder.path / "records.jsonl").read_bytes().splitlines()) == 6  # nothing comes out otherwise

    class Kind(MadeUp):
        def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
            return Score(values={"right": 1.0}, details={"pair": (1, 2)})

    watch = Watch()
    rescore(folder, [job_of(2, Kind())], watch)
    records = records_of(folder)
    assert {record.version for record in records.values() if record.cell == "floor on head@0.5"} == {2}
    assert {record.version for record in records.values() if record.cell != "floor on head@0.5"} == {1}
    assert records["q0", "floor on head@0.5"].output == Output(
        answer="no",
        calls=records["q0", "floor on head@0.5"].output.calls,  # type: ignore[union-attr]
    )
    assert records["q0", "drafter"].failure is not None
    assert [value for _, _, value in watch.values] == [1.0] * 4


def test_a_new_scoring_that_fails_takes_the_score_away(folder: RunFolder) -> None:
    run(folder, [job_of(1)], MadeSystem(), Watch())

    class Broken(MadeUp):
        def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
            raise ValueError("broken")

    rescore(folder, [job_of(1, Broken())], Watch())
    for record in records_of(folder).values():
        assert record.score is None
        assert record.output is not None
        assert record.failure is not None
    rescore(folder, [job_of(1)], Watch())
    for record in records_of(folder).values():
        assert record.failure is None
        assert record.score is not None
        assert record.version == 3


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_between_records(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, heeded_signals: None
) -> None:
    before = signal.getsignal(number)
    write, num_writes = os.write, 0

    def interrupted(handle: int, data: bytes) -> int:
        nonlocal num_writes
        if data.startswith(b'{"suite"'):
            num_writes += 1
            if num_writes == 2:
                os.kill(os.getpid(), number)  # in the middle of a record
        return write(handle, data[:50])

    monkeypatch.setattr(os, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(folder, [job_of(3)], MadeSystem(), Watch())
    monkeypatch.undo()
    assert len(records_of(folder)) == 2
    assert not read_run(folder.path).log.is_torn
    assert signal.getsignal(number) is before


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_stops_an_answer_which_is_asked_again(folder: RunFolder) -> None:
    def stops(sample: Sample) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return "never recorded"

    with pytest.raises(KeyboardInterrupt):
        run(folder, [job_of(3)], MadeSystem({"ceiling": stops}), Watch())
    assert list(records_of(folder)) == [("q0", "floor on head@0.5")]
    system = MadeSystem()
    run(folder, [job_of(3)], system, Watch())
    assert system.asked[0] == ("q0", "ceiling")
    assert len(records_of(folder)) == 9
