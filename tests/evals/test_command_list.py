"""`list`, `report` and `compare`, and what `run` makes of its words."""

from __future__ import annotations

import argparse
import json
import sys
import types
from pathlib import Path

import pytest

from asymspec_agents.errors import ConfigurationError
from evals.cells import BASELINES, IDENTICAL, ArmSpec, ViewSpec
from evals.cli.asking import suites_of
from evals.cli.choices import arms_of, data_paths, only_of
from evals.cli.listing import ARMS
from evals.run_folder import read_run
from evals.suites import SUITES
from tests.evals.made_command import Command


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    return Command(monkeypatch, capsys, tmp_path / "run")


def test_every_suite_arm_and_view_is_listed(command: Command) -> None:
    told = command("list")
    assert told.code == 0
    for name in (*SUITES, *BASELINES, IDENTICAL, "paper", "strict", "extract@SHARE"):
        assert name in told.out
    content = json.loads(command("list", "--json").out)
    assert {row["name"] for row in content["suites"]} == set(SUITES)
    judged = next(row for row in content["suites"] if row["name"] == "made_up_judged")
    assert judged["needs_judge"]
    assert judged["source"] == "nowhere, free"
    assert judged["views"] == ["head@0.5"]


def test_every_arm_there_is_has_a_line_and_can_be_asked_for() -> None:
    assert set(BASELINES) <= ARMS.keys()
    for name in ARMS:
        if name != "GATE+DELTA":
            assert str(ArmSpec.parse(name)) == name


def test_report_and_compare_hand_over_their_folders(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = types.ModuleType("evals.report")
    written: list[tuple[Path, Path]] = []
    module.write_report = lambda folder, output: written.append((folder, output))  # type: ignore[attr-defined]
    module.compare = lambda left, right: f"# {left.name} and {right.name}\n"  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "evals.report", module)
    told = command("report", "a")
    assert told.code == 0
    assert told.out.splitlines() == [
        str(Path("a/report") / name) for name in ("report.md", "report.html", "summary.json")
    ]
    command("report", "a", "--out", str(tmp_path))
    assert written == [(Path("a"), Path("a/report")), (Path("a"), tmp_path)]
    assert command("compare", "a", "b").out == "# a and b\n"


def test_the_verifier_grades_itself_where_that_is_asked_for(command: Command) -> None:
    told = command.run("--samples", "2", "--arm", "ceiling", "--judge", "local", suites=["made_up_judged"])
    assert told.code == 0, told.err
    assert "note: the verifier grades its own answers" in told.err
    plan = read_run(command.folder).plan
    assert plan.suites["made_up_judged"].judge == "made verifier"
    assert {record.score.values["right"] for record in command.records.values() if record.score} == {1.0}
    assert command.run("--judge", "local", suites=["made_up_judged"]).code == 0


def test_sweeps_concern_the_arms_that_have_the_option() -> None:
    swept = arms_of(["floor", "scd", "symmetric_full", "slack+context:slack=0.5", "paper"], ["beta=1,2"])
    assert list(map(str, swept)) == [
        "floor",
        "scd:beta=1",
        "scd:beta=2",
        "symmetric_full",
        "slack+context:beta=1,slack=0.5",
        "slack+context:beta=2,slack=0.5",
        "paper:beta=1",
        "paper:beta=2",
    ]
    assert list(map(str, arms_of(["floor", "floor", "asymspec"]))) == ["floor", "asymspec"]
    assert list(map(str, arms_of(["asymspec"], ["gamma=0.50, 0.5,1"]))) == [
        "asymspec:gamma=0.5",
        "asymspec:gamma=1",
    ]


def test_data_is_of_one_suite_or_of_all(tmp_path: Path) -> None:
    (tmp_path / "a=b").mkdir()
    (tmp_path / "c").mkdir()
    here, there = str(tmp_path / "a=b"), str(tmp_path / "c")
    assert data_paths([here], ["s", "t"]) == {"s": Path(here), "t": Path(here)}
    assert data_paths([f"s={here}", f"t={there}"], ["s", "t"]) == {"s": Path(here), "t": Path(there)}
    variants = ["react:budget=1", "react:budget=2", "t"]
    assert data_paths([f"react={there}"], variants) == {name: Path(there) for name in variants[:2]}
    assert data_paths([f"react:budget=1={there}"], variants) == {"react:budget=1": Path(there)}
    with pytest.raises(ConfigurationError, match=r"'s' has the data .* already"):
        data_paths([here, f"s={there}"], ["s"])


def test_groups_are_collected() -> None:
    assert only_of(["level=1", "level=2", "kind=a=b"]) == {
        "level": frozenset({"1", "2"}),
        "kind": frozenset({"a=b"}),
    }


@pytest.mark.parametrize(
    ("arm", "told"),
    [
        ("floor:beta=1", "beta changes nothing in floor; it has no options"),
        ("drafter:gamma=0.5", "gamma changes nothing in drafter"),
        ("rapid:beta=1", "beta changes nothing in rapid; it has num_draft_tokens"),
        ("asymspec:beta=1,beta=2", "option 'beta' is given twice"),
    ],
)
def test_an_arms_option_that_would_change_nothing_is_refused(arm: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        arms_of([arm])


def test_an_arms_options_that_matter_are_taken() -> None:
    given = ["rapid:num_draft_tokens=2", "scd:beta=2", "identical:gamma=0.5"]
    assert list(map(str, arms_of(given))) == given


@pytest.mark.parametrize("view", ["extract@1.5", "truncate@1000.5"])
def test_a_part_of_a_token_is_no_size_of_a_view(view: str) -> None:
    with pytest.raises(ConfigurationError, match="a share is at most 1"):
        ViewSpec.parse(view)


def test_an_option_of_a_suites_name_is_told_as_one() -> None:
    told = "in multihop it is part of the suite's name, as multihop:max_prompt_tokens=700"
    words = argparse.Namespace(suites=["multihop"], option=["max_prompt_tokens=700"])
    with pytest.raises(ConfigurationError, match=told):
        suites_of(words, None)
