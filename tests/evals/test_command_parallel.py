"""`python -m evals run`: several answers at once, suites with options, and suites that forbid resharing."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest

from asymspec_agents.errors import ConfigurationError, ConnectionFailedError
from evals.run_folder import read_run
from evals.sample import Sample
from evals.suite import Suite
from tests.evals.made_command import Command
from tests.evals.made_up import MadeSystem, MadeUp, MadeUpJudged

JUDGED = ("--judge", "local", "--judge-model", "m")


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    return Command(monkeypatch, capsys, tmp_path / "run")


def test_answers_at_once_are_those_of_one_after_another(command: Command) -> None:
    assert command.run("--parallel", "5").code == 0
    at_once = {key: record.score for key, record in command.records.items()}
    command.folder = command.folder.with_name("other")
    command.run()
    assert at_once == {key: record.score for key, record in command.records.items()}
    assert len(at_once) == 48
    assert read_run(command.folder.with_name("run")).plan.provenance[0]["num_parallel"] == 5


def test_answers_are_made_at_once(command: Command) -> None:
    meeting = threading.Barrier(4)

    def meets(sample: Sample) -> str:
        meeting.wait(20)
        return str(sample.gold)

    command.system = MadeSystem(dict.fromkeys(("floor", "ceiling", "drafter", "asymspec"), meets))
    assert command.run("--parallel", "4").code == 0
    assert len(command.records) == 48


def test_more_at_once_than_a_system_can_is_refused_before_anything_is_asked(command: Command) -> None:
    command.system.max_parallel = 1
    told = command.run("--parallel", "2")
    assert told.code == 2
    assert "answer 1 at a time; leave it out, or name a server with --url" in told.err
    assert not command.system.asked


@pytest.mark.parametrize("number", ["0", "-1", "x", "1001"])
def test_no_number_of_answers_at_once_is_a_usage_error(command: Command, number: str) -> None:
    assert command.run("--parallel", number).code == 2


def test_a_server_that_is_gone_ends_a_run_at_once_without_wrong_answers(command: Command) -> None:
    def gone(sample: Sample) -> str:
        raise ConnectionFailedError("http://127.0.0.1:1", "refused")

    command.system = MadeSystem(dict.fromkeys(("floor", "ceiling", "drafter", "asymspec"), gone))
    told = command.run("--parallel", "4")
    assert told.code == 2
    assert "in a row" in told.err
    assert not command.records
    command.system = MadeSystem()
    assert command.run("--parallel", "4").code == 0
    assert len(command.records) == 48


@pytest.mark.parametrize("keeps", [False, True])
def test_of_a_suite_that_forbids_resharing_ids_answers_and_scores_are_kept(
    command: Command, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    monkeypatch.setattr(MadeUp, "is_restricted", True)
    command.run(*(["--keep-restricted"] if keeps else []))
    outputs = [record.output for record in command.records.values()]
    assert all(output is not None and output.answer for output in outputs)
    assert all(record.score is not None for record in command.records.values())
    assert all(output is not None and bool(output.calls[0].text) is keeps for output in outputs)


def test_what_samples_depend_on_is_recorded(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    load = MadeUp.load

    def clustered(suite: MadeUp, path: Path | None = None) -> list[Sample]:
        from dataclasses import replace

        return [replace(sample, details={"cluster": sample.id[-1]}) for sample in load(suite, path)]

    monkeypatch.setattr(MadeUp, "load", clustered)
    command.run("--samples", "2")
    assert all(record.groups["cluster"] == key[0][-1] for key, record in command.records.items())


def test_options_reach_the_suites_and_unknown_ones_are_refused(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = command.run("--option", "cassette=web.jsonl")
    assert told.code == 2
    assert "--option cassette: no suite of this run has it (made_up); they have none" in told.err
    assert command.run("--option", "cassette").code == 2
    assert command.run("--option", "a=1", "a=2").code == 2

    taken: list[Mapping[str, str]] = []

    def with_options(suite: Suite, options: Mapping[str, str]) -> Suite:
        taken.append(options)
        return suite

    monkeypatch.setattr(MadeUp, "with_options", with_options)
    monkeypatch.setattr(MadeUp, "option_names", ("online", "cassette"))
    assert command.run("--option", "cassette=web.jsonl", "online=true=1").code == 0
    assert taken[-1] == {"cassette": "web.jsonl", "online": "true=1"}
    assert (
        "--option tape: no suite of this run has it (made_up); their options: online, cassette"
        in command.run("--option", "tape=1").err
    )


def test_options_of_one_suite_leave_the_others_alone(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MadeUpJudged, "option_names", ("cassette",))
    monkeypatch.setattr(MadeUpJudged, "with_options", lambda suite, options: suite)
    told = command.run(
        "--option", "cassette=web.jsonl", "--samples", "1", *JUDGED, suites=["made_up", "made_up_judged"]
    )
    assert told.code == 0, told.err


def test_a_judge_is_of_those_suites_that_one_grades(command: Command) -> None:
    asked = ("--samples", "1", "--arm", "ceiling")
    command.run(*asked, *JUDGED, suites=["made_up", "made_up_judged"])
    judges = {name: suite.judge for name, suite in read_run(command.folder).plan.suites.items()}
    assert judges == {"made_up": None, "made_up_judged": "judge"}
    assert command.run(*asked, suites=["made_up"]).code == 0  # goes on without the judge


def test_a_suite_that_lacks_something_says_so_before_a_model_is_loaded(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacks(suite: Suite) -> None:
        raise ConfigurationError("no cassette; name one with --option cassette=PATH")

    monkeypatch.setattr(MadeUp, "prepare", lacks)
    told = command.run()
    assert (told.code, "no cassette" in told.err) == (2, True)
    assert not command.opened
    assert not command.folder.exists()
