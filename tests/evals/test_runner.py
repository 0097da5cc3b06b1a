"""What a run records: every sample of every cell once, failures too; retries and new scores in their place."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.errors import (
    ConfigurationError,
    ConnectionFailedError,
    MissingDependencyError,
    ServerError,
)
from evals.cells import Cell
from evals.outages import OutageError, is_outage
from evals.plan import Plan, SuitePlan
from evals.records import Output, Record, Score
from evals.run_folder import RunFolder, read_run
from evals.runner import Job, rescore, run
from evals.sample import Sample
from evals.suite import Judge
from tests.evals.made_up import MadeSystem, MadeUp, MadeUpJudged, made_samples

CELLS = tuple(map(Cell.parse, ("floor on head@0.5", "ceiling", "drafter")))


class Watch:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.values: list[tuple[str, str, float]] = []

    def began(self, record_key: tuple[str, str, str]) -> None:
        pass

    def ended(self, record: Record, value: float, elapsed_s: float) -> None:
        assert elapsed_s >= 0
        self.values.append((record.sample, record.cell, value))


def _job(num_samples: int = 3, suite: MadeUp | None = None, judge: Judge | None = None) -> Job:
    return Job(suite or MadeUp(), made_samples(num_samples), CELLS, judge)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    suites = {
        name: SuitePlan(
            fingerprint="f",
            gold_fingerprint="g",
            num_samples=9,
            samples=tuple(f"q{number}" for number in range(9)),
            cells=tuple(map(str, CELLS)),
        )
        for name in ("made_up", "made_up_judged")
    }
    with RunFolder(tmp_path / "run") as folder:
        folder.write_plan(Plan(system={}, options={}, suites=suites))
        yield folder


def _records(folder: RunFolder) -> dict[tuple[str, str], Record]:
    return {(record.sample, record.cell): record for record in read_run(folder.path).records()}


def _raise(error: BaseException) -> Any:
    def answer(sample: Sample) -> str:
        raise error

    return answer


def test_samples_come_first_and_cells_within_them(folder: RunFolder) -> None:
    system, watch = MadeSystem({"floor": lambda sample: "no"}), Watch()
    run(folder, [_job(2)], system, watch)
    order = [(sample, str(cell)) for sample in ("q0", "q1") for cell in CELLS]
    assert system.asked == order
    assert [(sample, cell) for sample, cell, _ in watch.values] == order
    assert [value for _, _, value in watch.values] == [0.0, 1.0, 1.0] * 2
    record = _records(folder)["q1", "floor on head@0.5"]
    assert record.groups == {"parity": "odd"}
    assert record.score is not None
    assert record.finished_at.endswith("+00:00")


def test_what_is_recorded_is_not_asked_again(folder: RunFolder) -> None:
    run(folder, [_job(2)], MadeSystem(), Watch())
    system = MadeSystem()
    run(folder, [_job(3)], system, Watch())
    assert {sample for sample, _ in system.asked} == {"q2"}
    assert len(_records(folder)) == 9


def test_a_failing_arm_is_recorded_and_the_others_go_on(folder: RunFolder) -> None:
    broken = MadeSystem(
        {"drafter": _raise(RuntimeError("no memory\ud800")), "ceiling": _raise(SystemExit(3))}
    )
    watch = Watch()
    run(folder, [_job(3)], broken, watch)
    records = _records(folder)
    assert len(records) == 9
    failure = records["q1", "drafter"].failure
    assert failure is not None
    assert (failure.stage, failure.error_type) == ("answer", "RuntimeError")
    assert failure.message.startswith("no memory\ufffd (test_runner.py, line ")
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

    run(folder, [_job(1, Odd())], MadeSystem(), Watch())
    for record in _records(folder).values():
        assert record.output is not None
        assert record.score is None
        assert record.failure is not None
        assert record.failure.stage == "score"
        assert told in record.failure.message


def test_an_output_that_can_not_be_written_is_a_failure(folder: RunFolder) -> None:
    class Odd(MadeUp):
        def answer(self, sample: Sample, asker: Any) -> Output:
            return Output(answer="", trajectory=({"step": object()},))

    run(folder, [_job(1, Odd())], MadeSystem(), Watch())
    failures = [record.failure for record in _records(folder).values()]
    assert [failure.stage if failure else None for failure in failures] == ["answer"] * 3


def test_a_missing_package_stops_the_run(folder: RunFolder) -> None:
    with pytest.raises(MissingDependencyError):
        run(
            folder,
            [_job(2)],
            MadeSystem({"floor": _raise(MissingDependencyError("bm25s", "compress"))}),
            Watch(),
        )
    assert not _records(folder)


def test_a_retry_asks_again_what_failed_and_only_that(folder: RunFolder) -> None:
    run(folder, [_job(3)], MadeSystem({"drafter": _raise(RuntimeError("once"))}), Watch())
    system = MadeSystem()
    run(folder, [_job(3)], system, Watch())
    assert not system.asked
    run(folder, [_job(3)], system, Watch(), retry_failed=True)
    assert system.asked == [(f"q{number}", "drafter") for number in range(3)]
    records = _records(folder)
    assert len(records) == 9
    assert all(record.failure is None for record in records.values())
    assert {record.version for record in records.values() if record.cell == "drafter"} == {2}
    assert len((folder.path / "records.jsonl").read_bytes().splitlines()) == 12
    run(folder, [_job(3)], system, Watch(), retry_failed=True)
    assert len(system.asked) == 3


class Judging:
    """A judge that says what it is told to."""

    name = "judge"

    def __init__(self, *replies: str | Exception) -> None:
        self._replies = list(replies)
        self.num_asked = 0

    def ask(self, prompt: str, *, system: str | None = None, max_tokens: int = 512) -> str:
        self.num_asked += 1
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply


def test_a_judges_failure_keeps_the_output_and_a_retry_only_scores(folder: RunFolder) -> None:
    run(folder, [_job(2, MadeUpJudged(), Judging(ValueError("unreadable")))], MadeSystem(), Watch())
    records = _records(folder)
    assert {record.failure.stage for record in records.values() if record.failure} == {"score"}
    assert all(record.output is not None for record in records.values())
    system, judge = MadeSystem(), Judging("YES")
    run(folder, [_job(2, MadeUpJudged(), judge)], system, Watch(), retry_failed=True)
    assert not system.asked
    assert judge.num_asked == 6
    assert {record.score.values["right"] for record in _records(folder).values() if record.score} == {1.0}


def test_a_suite_that_needs_a_judge_has_one() -> None:
    with pytest.raises(ConfigurationError, match="'made_up_judged' is graded by a judge, and there is none"):
        _job(1, MadeUpJudged())


def test_scoring_anew_asks_nobody_and_records_what_changed(folder: RunFolder) -> None:
    run(
        folder,
        [_job(2)],
        MadeSystem({"floor": lambda sample: "no", "drafter": _raise(RuntimeError())}),
        Watch(),
    )
    rescore(folder, [_job(2)], Watch())
    assert len((folder.path / "records.jsonl").read_bytes().splitlines()) == 6  # nothing comes out otherwise

    class Kind(MadeUp):
        def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
            return Score(values={"right": 1.0}, details={"pair": (1, 2)})

    watch = Watch()
    rescore(folder, [_job(2, Kind())], watch)
    records = _records(folder)
    assert {record.version for record in records.values() if record.cell == "floor on head@0.5"} == {2}
    assert {record.version for record in records.values() if record.cell != "floor on head@0.5"} == {1}
    assert records["q0", "floor on head@0.5"].output == Output(
        answer="no",
        calls=records["q0", "floor on head@0.5"].output.calls,  # type: ignore[union-attr]
    )
    assert records["q0", "drafter"].failure is not None
    assert [value for _, _, value in watch.values] == [1.0] * 4


def test_a_new_scoring_that_fails_takes_the_score_away(folder: RunFolder) -> None:
    run(folder, [_job(1)], MadeSystem(), Watch())

    class Broken(MadeUp):
        def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
            raise ValueError("broken")

    rescore(folder, [_job(1, Broken())], Watch())
    for record in _records(folder).values():
        assert record.score is None
        assert record.output is not None
        assert record.failure is not None
    rescore(folder, [_job(1)], Watch())
    for record in _records(folder).values():
        assert record.failure is None
        assert record.score is not None
        assert record.version == 3


def test_an_outage_stops_the_run_and_is_no_wrong_answer(folder: RunFolder) -> None:
    gone = ConnectionFailedError("no route")
    down = MadeSystem({"floor": _raise(gone), "ceiling": _raise(gone), "drafter": _raise(gone)})
    with pytest.raises(OutageError, match=r"drafter: no route .*failure 3 of a server in a row, and none"):
        run(folder, [_job(3)], down, Watch())
    assert len(down.asked) == 3
    assert not _records(folder)
    run(folder, [_job(3)], MadeSystem(), Watch())
    assert len(_records(folder)) == 9


def test_an_arm_whose_own_server_is_gone_stops_the_run_too(folder: RunFolder) -> None:
    system = MadeSystem({"drafter": _raise(ConnectionFailedError("gone"))})
    with pytest.raises(OutageError):
        run(folder, [_job(9)], system, Watch())
    assert len(_records(folder)) == 6
    assert ("q0", "drafter") not in _records(folder)


def test_a_sample_that_cuts_the_connection_is_recorded_once_the_server_answers(folder: RunFolder) -> None:
    def drops_one(sample: Sample) -> str:
        if sample.id == "q1":
            raise RuntimeError("agent stopped") from ServerError("bad gateway", 502)
        return str(sample.gold)

    run(folder, [_job(3)], MadeSystem({"ceiling": drops_one}), Watch())
    records = _records(folder)
    assert len(records) == 9
    failure = records["q1", "ceiling"].failure
    assert failure is not None
    assert failure.message.startswith("agent stopped")


def test_a_cut_connection_at_the_end_is_recorded(folder: RunFolder) -> None:
    run(folder, [_job(1)], MadeSystem({"drafter": _raise(ConnectionFailedError("gone"))}), Watch())
    assert _records(folder)["q0", "drafter"].failure is not None


def test_without_a_limit_outages_are_failures(folder: RunFolder) -> None:
    system = MadeSystem({"drafter": _raise(ConnectionFailedError("gone"))})
    run(folder, [_job(5)], system, Watch(), stop_after_outages=0)
    assert len(_records(folder)) == 15


def test_a_judge_that_is_gone_stops_the_run_with_the_answers_kept(folder: RunFolder) -> None:
    judge = Judging(ConnectionFailedError("judge away"))
    with pytest.raises(OutageError, match=r"the judge: judge away .*--retry-failed"):
        run(folder, [_job(9, MadeUpJudged(), judge)], MadeSystem(), Watch())
    records = _records(folder)
    assert len(records) == 3
    assert all(record.output for record in records.values())
    flaky = Judging(ConnectionFailedError("1"), ConnectionFailedError("2"), "YES")
    run(folder, [_job(9, MadeUpJudged(), flaky)], MadeSystem(), Watch(), retry_failed=True)
    assert len(_records(folder)) == 27


def test_which_errors_are_a_servers() -> None:
    assert is_outage(ConnectionFailedError(""))
    assert is_outage(ConnectionResetError())
    assert all(is_outage(ServerError("", status)) for status in (401, 404, 429, 503))
    assert not any(is_outage(ServerError("", status)) for status in (400, 422, 500))
    assert not is_outage(ValueError())
    looped = ValueError()
    looped.__context__ = KeyError()
    looped.__context__.__context__ = looped
    assert not is_outage(looped)


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_between_records(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
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
        run(folder, [_job(3)], MadeSystem(), Watch())
    monkeypatch.undo()
    assert len(_records(folder)) == 2
    assert not read_run(folder.path).log.is_torn
    assert signal.getsignal(number) is before


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_stops_an_answer_which_is_asked_again(folder: RunFolder) -> None:
    def stops(sample: Sample) -> str:
        os.kill(os.getpid(), signal.SIGTERM)
        return "never recorded"

    with pytest.raises(KeyboardInterrupt):
        run(folder, [_job(3)], MadeSystem({"ceiling": stops}), Watch())
    assert list(_records(folder)) == [("q0", "floor on head@0.5")]
    system = MadeSystem()
    run(folder, [_job(3)], system, Watch())
    assert system.asked[0] == ("q0", "ceiling")
    assert len(_records(folder)) == 9
