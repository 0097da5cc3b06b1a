"""A server that is gone stops a run; what it did not answer is no wrong answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from asymspec_agents.errors import BackendError, ConnectionFailedError, ServerError, UnsupportedRequestError
from evals.outages import OutageError, is_outage
from evals.run_folder import RunFolder
from evals.runner import run
from evals.sample import Sample
from tests.evals.made_up import MadeSystem, MadeUpJudged
from tests.evals.runner_fixtures import Judging, Watch, job_of, made_folder, raises, records_of


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[RunFolder]:
    with made_folder(tmp_path / "run") as folder:
        yield folder


def test_an_outage_stops_the_run_and_is_no_wrong_answer(folder: RunFolder) -> None:
    gone = ConnectionFailedError("no route")
    down = MadeSystem({"floor": raises(gone), "ceiling": raises(gone), "drafter": raises(gone)})
    with pytest.raises(OutageError, match=r"drafter: no route .*failure 3 of a server in a row, and none"):
        run(folder, [job_of(3)], down, Watch())
    assert len(down.asked) == 3
    assert not records_of(folder)
    run(folder, [job_of(3)], MadeSystem(), Watch())
    assert len(records_of(folder)) == 9


def test_an_arm_whose_own_server_is_gone_stops_the_run_too(folder: RunFolder) -> None:
    system = MadeSystem({"drafter": raises(ConnectionFailedError("gone"))})
    with pytest.raises(OutageError):
        run(folder, [job_of(9)], system, Watch())
    assert len(records_of(folder)) == 6
    assert ("q0", "drafter") not in records_of(folder)


def test_a_sample_that_cuts_the_connection_is_recorded_once_the_server_answers(folder: RunFolder) -> None:
    def drops_one(sample: Sample) -> str:
        if sample.id == "q1":
            raise RuntimeError("agent stopped") from ServerError("bad gateway", 502)
        return str(sample.gold)

    run(folder, [job_of(3)], MadeSystem({"ceiling": drops_one}), Watch())
    records = records_of(folder)
    assert len(records) == 9
    failure = records["q1", "ceiling"].failure
    assert failure is not None
    assert failure.message.startswith("agent stopped")


def test_an_outage_at_the_end_is_no_wrong_answer_either(folder: RunFolder) -> None:
    with pytest.raises(OutageError, match=r"drafter: gone .*1 answers at the end"):
        run(folder, [job_of(1)], MadeSystem({"drafter": raises(ConnectionFailedError("gone"))}), Watch())
    assert records_of(folder).keys() == {("q0", "floor on head@0.5"), ("q0", "ceiling")}
    run(folder, [job_of(1)], MadeSystem(), Watch())
    assert records_of(folder)["q0", "drafter"].failure is None


def test_without_a_limit_outages_are_failures(folder: RunFolder) -> None:
    system = MadeSystem({"drafter": raises(ConnectionFailedError("gone"))})
    run(folder, [job_of(5)], system, Watch(), stop_after_outages=0)
    assert len(records_of(folder)) == 15


def test_a_judge_that_is_gone_stops_the_run_with_the_answers_kept(folder: RunFolder) -> None:
    judge = Judging(ConnectionFailedError("judge away"))
    with pytest.raises(OutageError, match=r"the judge: judge away .*--retry-failed"):
        run(folder, [job_of(9, MadeUpJudged(), judge)], MadeSystem(), Watch())
    records = records_of(folder)
    assert len(records) == 3
    assert all(record.output for record in records.values())
    flaky = Judging(ConnectionFailedError("1"), ConnectionFailedError("2"), "YES")
    run(folder, [job_of(9, MadeUpJudged(), flaky)], MadeSystem(), Watch(), retry_failed=True)
    assert len(records_of(folder)) == 27


def test_which_errors_are_a_servers() -> None:
    assert is_outage(ConnectionFailedError(""))
    assert is_outage(ConnectionResetError())
    assert is_outage(BackendError("a page, not an answer"))
    assert not is_outage(UnsupportedRequestError(""))
    assert all(is_outage(ServerError("", status)) for status in (401, 404, 429, 503))
    assert not any(is_outage(ServerError("", status)) for status in (400, 422, 500))
    assert not is_outage(ValueError())
    looped = ValueError()
    looped.__context__ = KeyError()
    looped.__context__.__context__ = looped
    assert not is_outage(looped)
