"""`python -m evals run`: what it asks, what it tells, how it ends, and how it goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from asymspec_agents.errors import ConfigurationError, ConnectionFailedError
from evals.run_folder import RunFolder, read_run
from evals.sample import Sample
from tests.evals.made_command import Command, MadeJudge
from tests.evals.made_up import MadeSystem


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    return Command(monkeypatch, capsys, tmp_path / "run")


def _fails(sample: Sample) -> str:
    raise RuntimeError("broken arm")


def test_a_run_asks_the_default_arms_and_tells_where_it_is(command: Command) -> None:
    told = command.run()
    assert told.code == 0
    assert told.out.splitlines()[-1] == (
        f"48 records in {command.folder}; report: python -m evals report {command.folder}"
    )
    assert "48 of 48 answers" in told.err
    assert {cell for _, cell in command.records} == {
        "floor on head@0.5",
        "ceiling",
        "drafter",
        "asymspec on head@0.5",
    }
    assert command.system.num_closed == 1
    plan = read_run(command.folder).plan
    assert plan.system == {"verifier": "made", "sizes": [3, 1]}
    assert plan.provenance[0]["selection"] == "all"
    assert "torch" in plan.provenance[0]


def test_failures_are_told_and_the_code_is_1(command: Command) -> None:
    command.system = MadeSystem({"drafter": _fails})
    told = command.run("--samples", "3")
    assert told.code == 1
    assert "made_up · drafter: 3 without an answer, such as q" in told.err
    assert "RuntimeError: broken arm (test_command_run.py, line " in told.err
    assert command.run().code == 1
    command.system = MadeSystem()
    assert command.run("--retry-failed").code == 0


def test_what_is_not_named_stays_and_what_is_named_is_added(command: Command) -> None:
    command.run("--samples", "3", "--arm", "floor", "ceiling")
    first = {sample for sample, _ in command.records}
    assert len(command.records) == 6
    command.run("--arm", "drafter")
    assert len(command.records) == 9
    assert {sample for sample, _ in command.records} == first
    told = command.run("--samples", "5", "--arm", "floor")
    assert "note: with what the folder asks already, that is 5 samples and 3 cells of made_up" in told.err
    assert len(command.records) == 15
    assert first < {sample for sample, _ in command.records}
    assert command.run(suites=()).code == 0  # the folder knows its suites
    assert len(command.records) == 15
    command.run("--samples", "all")
    assert len(command.records) == 36
    assert len(read_run(command.folder).plan.provenance) == 5


def test_samples_are_chosen_by_number_id_and_group(command: Command, tmp_path: Path) -> None:
    (tmp_path / "ids").write_text("\ufeffq1\n q2 \n\nq3\n", encoding="utf-8")
    command.run("--arm", "ceiling", "--ids", str(tmp_path / "ids"), "--only", "parity=odd")
    assert {sample for sample, _ in command.records} == {"q1", "q3"}
    assert read_run(command.folder).plan.provenance[0]["selection"] == "ids of ids, parity=odd"


def test_sweeps_make_an_arm_of_each_value(command: Command) -> None:
    told = command.run(
        "--samples", "1", "--arm", "asymspec", "floor", "--sweep", "beta=0.5,2", "num_draft_tokens=1,4"
    )
    assert told.code == 0
    assert {cell for _, cell in command.records} == {
        "asymspec:beta=0.5,num_draft_tokens=1 on head@0.5",
        "asymspec:beta=0.5,num_draft_tokens=4 on head@0.5",
        "asymspec:beta=2,num_draft_tokens=1 on head@0.5",
        "asymspec:beta=2,num_draft_tokens=4 on head@0.5",
        "floor on head@0.5",
    }


def test_notes_tell_of_too_few_samples_and_of_other_code(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evals import provenance

    monkeypatch.setattr(provenance, "_revision", lambda: "abc")
    told = command.run("--samples", "13", "--arm", "ceiling")
    assert "note: 13 samples are asked of made_up, which has 12 to choose from" in told.err
    assert "revisions" not in command.run().err
    monkeypatch.setattr(provenance, "_revision", lambda: "def-dirty")
    assert "note: the run was made with several revisions: abc, def-dirty" in command.run().err


def test_views_are_the_commands_or_the_suites(command: Command) -> None:
    command.run("--samples", "1", "--arm", "floor", "--view", "truncate@100", "truncate@0.2")
    assert {cell for _, cell in command.records} == {"floor on truncate@100", "floor on truncate@0.2"}


def test_a_dry_run_opens_nothing_and_writes_nothing(command: Command) -> None:
    told = command.run("--dry-run", "--samples", "2")
    assert told.code == 0
    assert not command.opened
    assert not command.folder.exists()
    assert [line.split()[:2] for line in told.out.splitlines()[2:4]] == [
        ["made_up", "floor"],
        ["made_up", "ceiling"],
    ]
    assert told.out.splitlines()[-1].split()[:3] == ["total", "8", "0"]
    full, short = (int(line.split()[-1]) for line in (told.out.splitlines()[3], told.out.splitlines()[2]))
    assert 0 < short < full
    command.run("--samples", "1")
    assert command.run("--dry-run", "--samples", "2").out.splitlines()[-1].split()[:3] == ["total", "8", "4"]


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("--arm", "flor"), "arm='flor' is unknown; arms: floor, ceiling"),
        (("--arm", "asymspec:beta=9"), "beta"),
        (("--view", "shrink@0.3"), "view='shrink@0.3' is unknown; methods: extract"),
        (("--view", "head"), "needs a size"),
        (("--arm", "floor", "--sweep", "beta=1,2"), "--sweep beta concerns none of the arms floor"),
        (("--sweep", "beta"), "must be OPTION=VALUE"),
        (("--sweep", "betta=1"), "option 'betta' is unknown"),
        (("--sweep", "beta=1", "beta=2"), "--sweep beta is given twice"),
        (("--arm", "asymspec:beta=2", "--sweep", "beta=1"), "has beta already"),
        (("--only", "level=1"), "in made_up, group 'level' is unknown; groups: parity"),
        (("--only", "parity"), "must be GROUP=VALUE"),
        (("--data", "/no/such/file"), "/no/such/file does not exist"),
        (("--data", ""), "--data '' names no path"),
        (("--data", "made_up="), "--data 'made_up=' names no path"),
        (("--view", "signature"), "has no tools, so the view 'signature'"),
        (("--data", "simpleqa=x"), "suite 'simpleqa' is not of this run; here: made_up"),
        (("--data", "nothing=x"), "suite 'nothing' is unknown"),
        (("--ids", "/no/such/file"), "/no/such/file: No such file or directory"),
        (("--api-key", "secret"), "api_key: only for a server"),
        (("--url", "http://127.0.0.1:1", "--verifier", "x"), "verifier: only for local models"),
        (("--judge", "local", "--judge-url", "http://127.0.0.1:1"), "two judges; name one"),
        (("--judge-model", "m"), "give --judge-url or --judge local"),
        (("--rescore",), "--rescore: there is no run in"),
    ],
)
def test_a_wrong_line_is_an_error_before_a_model_is_loaded(
    command: Command, argv: tuple[str, ...], told: str
) -> None:
    ended = command.run(*argv)
    assert (ended.code, ended.out) == (2, "")
    assert told in ended.err
    assert not command.opened


@pytest.mark.parametrize("argv", [("--samples", "0"), ("--samples", "x"), ("--stop-after-outages", "-1")])
def test_wrong_numbers_are_usage_errors(command: Command, argv: tuple[str, ...]) -> None:
    assert command.run(*argv).code == 2


def test_names_that_do_not_exist_are_told_with_those_that_do(command: Command, tmp_path: Path) -> None:
    told = command.run(suites=["made_down"])
    assert (told.code, "suite='made_down' is unknown; suites: " in told.err) == (2, True)
    assert "no suite is named" in command.run(suites=()).err
    assert "--out is missing" in command("run", "made_up").err
    (tmp_path / "ids").write_text("q1\nq99\n")
    assert "1 of the ids are in no suite here: q99" in command.run("--ids", str(tmp_path / "ids")).err
    (tmp_path / "ids").write_text("\n")
    assert "there is no id in it" in command.run("--ids", str(tmp_path / "ids")).err


def test_cells_that_the_system_can_not_do_are_all_named_before_the_start(command: Command) -> None:
    command.system = MadeSystem(arms=["ceiling"])
    told = command.run("--arm", "floor", "ceiling", "drafter")
    assert told.code == 2
    assert "floor on head@0.5: arm='floor' is not available here" in told.err
    assert "drafter: arm='drafter' is not available here" in told.err
    assert not command.system.asked
    assert command.system.num_closed == 1
    assert not (command.folder / "run.json").exists()
    command.system = MadeSystem()
    assert command.run("--samples", "1").code == 0  # the folder is still good for a run


def test_another_system_is_refused_and_nothing_is_asked(command: Command) -> None:
    command.run("--samples", "1")
    command.system = MadeSystem(identity={"verifier": "other", "sizes": (3, 1)})
    told = command.run("--samples", "2")
    assert told.code == 2
    assert 'holds another run; system.verifier: "made" there, "other" now' in told.err
    assert not command.system.asked
    assert len(command.records) == 4


def test_other_data_and_another_seed_are_refused_before_a_model_is_loaded(
    command: Command, tmp_path: Path
) -> None:
    command.run("--samples", "1")
    (tmp_path / "data").write_text("13")
    for argv, told in (
        (("--data", str(tmp_path / "data")), "made_up.fingerprint: "),
        (("--seed", "1"), "options.seed: 0 there, 1 now"),
    ):
        ended = command.run(*argv)
        assert ended.code == 2
        assert told in ended.err
    assert len(command.opened) == 1


def test_a_suite_for_a_judge_needs_one_before_a_model_is_loaded(command: Command) -> None:
    told = command.run(suites=["made_up", "made_up_judged"])
    assert told.code == 2
    assert (
        "made_up_judged: graded by a judge; name one with --judge-url and --judge-model, or --judge local"
        in (told.err)
    )
    assert not command.opened
    assert not command.folder.exists()


def test_a_judge_grades_and_is_closed(command: Command) -> None:
    told = command.run(
        "--samples",
        "2",
        "--judge-url",
        "http://127.0.0.1:1",
        "--judge-model",
        "m",
        "--judge-api-key",
        "k",
        suites=["made_up_judged"],
    )
    assert told.code == 0
    assert [(options.url, options.model, options.api_key) for options in command.judges] == [
        ("http://127.0.0.1:1", "m", "k")
    ]
    assert command.judge.is_closed
    assert read_run(command.folder).plan.suites["made_up_judged"].judge == "judge"


def test_new_scores_ask_no_model_and_may_come_from_another_judge(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged = ("--judge", "local", "--judge-model", "m")
    command.run("--samples", "2", *judged, suites=["made_up_judged"])
    command.judge = MadeJudge("other", "NO")
    assert "made_up_judged.judge" in command.run(*judged, suites=["made_up_judged"]).err
    command.opened.clear()
    told = command.run("--rescore", *judged, suites=())
    assert told.code == 0
    assert not command.opened
    assert {record.score.values["right"] for record in command.records.values() if record.score} == {0.0}
    plan = read_run(command.folder).plan
    assert (plan.suites["made_up_judged"].judge, plan.rescoring) == ("other", ())
    assert "leave --samples out" in command.run("--rescore", "--samples", "1", *judged).err
    assert (
        "loads no verifier; add --judge-model"
        in command.run("--rescore", "--judge", "local", suites=["made_up_judged"]).err
    )


def test_a_new_scoring_that_was_cut_short_must_be_ended(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evals.cli import run

    command.run("--samples", "2")

    def stopped(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(run, "rescore", stopped)
        assert command.run("--rescore").code == 130
    told = command.run()
    assert told.code == 2
    assert "a new scoring of made_up was cut short" in told.err
    assert command.run("--rescore").code == 0
    assert command.run().code == 0


def test_ctrl_c_is_130_and_the_same_command_goes_on(command: Command) -> None:
    def stops(sample: Sample) -> str:
        raise KeyboardInterrupt

    command.system = MadeSystem({"ceiling": stops})
    told = command.run("--samples", "2")
    assert told.code == 130
    assert "stopped; what is recorded is whole. The same command goes on" in told.err
    assert command.system.num_closed == 1
    command.system = MadeSystem()
    assert command.run("--samples", "2").code == 0
    assert len(command.records) == 8


def test_a_server_that_is_gone_ends_the_run_with_a_message(command: Command) -> None:
    def gone(sample: Sample) -> str:
        raise ConnectionFailedError("nobody answers at port 1")

    command.system = MadeSystem(dict.fromkeys(("floor", "ceiling", "drafter", "asymspec"), gone))
    told = command.run()
    assert told.code == 2
    assert "nobody answers at port 1" in told.err
    assert "start the run again once it answers" in told.err
    assert not command.records
    assert command.run("--stop-after-outages", "0").code == 1
    assert len(command.records) == 48


def test_a_folder_in_use_is_refused_before_data_is_loaded(command: Command) -> None:
    with RunFolder(command.folder):
        told = command.run()
    assert told.code == 2
    assert "is in use by another run" in told.err
    assert not command.opened


def test_a_system_that_can_not_be_opened_leaves_no_run(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    import evals.systems

    def refuses(options: object) -> MadeSystem:
        raise ConfigurationError("verifier='x': no such model")

    monkeypatch.setattr(evals.systems, "open_system", refuses)
    assert "no such model" in command.run().err
    assert not (command.folder / "run.json").exists()
