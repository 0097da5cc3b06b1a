"""One writer a folder, any readers; what a folder holds is checked; plans grow, and only by what fits."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError
from evals.plan import Plan, SuitePlan, fingerprint, gold_fingerprint, merged
from evals.records import Record
from evals.run_folder import RunFolder, read_plan, read_run
from evals.sample import Sample
from tests.architecture import ROOT
from tests.evals.made_up import made_samples


def _plan(**fields: Any) -> Plan:
    suite = {
        "fingerprint": "f",
        "gold_fingerprint": "g",
        "num_samples": 9,
        "samples": ("a", "b"),
        "cells": ("floor", "ceiling"),
    }
    given: dict[str, Any] = {
        "system": {"verifier": {"name": "V", "params": 3}, "devices": ("cpu",)},
        "options": {"seed": 0},
        "suites": {"s": SuitePlan(**{**suite, **fields.pop("suite", {})})},
        "provenance": ({"date": "1"},),
    }
    return Plan(**{**given, **fields})


def _record(sample: str = "a", **fields: Any) -> Record:
    return Record(**{"suite": "s", "sample": sample, "cell": "ceiling", **fields})


def test_a_folder_is_made_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "run"
    with RunFolder(path) as folder:
        assert folder.plan is None
        with pytest.raises(ConfigurationError, match="has no plan yet"):
            folder.append(_record())
        folder.write_plan(_plan())
        folder.append(_record("a"))
        folder.append(_record("b"))
        assert folder.read(folder.entries["s", "b", "ceiling"]) == _record("b")
        run = read_run(path)  # while it is locked
    assert [record.sample for record in run.records()] == ["a", "b"]
    with RunFolder(path) as folder:
        assert folder.plan is not None
        assert folder.plan.suites == _plan().suites
        assert folder.entries.keys() == {("s", "a", "ceiling"), ("s", "b", "ceiling")}


def test_a_reader_tolerates_a_torn_line_and_leaves_it(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        folder.write_plan(_plan())
        folder.append(_record("a"))
    with (tmp_path / "records.jsonl").open("ab") as file:
        file.write(b'{"suite": "s", "sam')
    content = (tmp_path / "records.jsonl").read_bytes()
    run = read_run(tmp_path)
    assert run.log.is_torn
    assert len(list(run.records())) == 1
    assert (tmp_path / "records.jsonl").read_bytes() == content


def test_a_second_process_is_refused_and_told_the_way_out(tmp_path: Path) -> None:
    code = "import sys, pathlib, evals.run_folder; evals.run_folder.RunFolder(pathlib.Path(sys.argv[1]))"
    command = [sys.executable, "-c", code, str(tmp_path)]
    with RunFolder(tmp_path):
        second = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert second.returncode != 0
        assert f"{tmp_path} is in use by another run; wait for that one to end, or give another --out" in (
            second.stderr
        )
        with pytest.raises(ConfigurationError, match="is in use by another run"):
            RunFolder(tmp_path)
    subprocess.run(command, cwd=ROOT, check=True)


def test_a_folder_of_other_things_is_no_run(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    for use in (RunFolder, read_run):
        use_any: Callable[[Path], Any] = use
        with pytest.raises(ConfigurationError, match=r"is no run folder: .*run\.json"):
            use_any(tmp_path)
    with pytest.raises(ConfigurationError, match="is no run folder"):
        read_run(tmp_path / "missing")
    with pytest.raises(ConfigurationError, match="is no run folder"):
        read_run(tmp_path / "thesis.txt")


def test_a_plan_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text("{")
    with pytest.raises(ConfigurationError, match=r"run\.json can't be read"):
        read_plan(tmp_path)
    later = {**json.loads(_plan().model_dump_json()), "format": 2}
    path.write_text(json.dumps(later))
    with pytest.raises(ConfigurationError, match=r"run\.json is no plan of a run: format: Input should be 1"):
        RunFolder(tmp_path)


def test_a_plan_is_replaced_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with RunFolder(tmp_path) as folder:
        folder.write_plan(_plan())
        monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("stopped")))
        with pytest.raises(OSError, match="stopped"):
            folder.write_plan(_plan(system={"verifier": "other"}))
        monkeypatch.undo()
        assert folder.plan == _plan()
    assert read_plan(tmp_path) == _plan().model_copy(update={"system": read_run(tmp_path).plan.system})
    with RunFolder(tmp_path) as folder:  # what was left of the attempt is in nobody's way
        folder.write_plan(_plan())


def test_records_of_another_run_are_refused(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        folder.write_plan(_plan())
        folder.append(_record("a"))
    (tmp_path / "run.json").write_text(_plan(suite={"samples": ("z",)}).model_dump_json())
    for use in (RunFolder, read_run):
        use_any: Callable[[Path], Any] = use
        with pytest.raises(
            ConfigurationError, match=r"a record of s · a · ceiling, which run\.json does not ask"
        ):
            use_any(tmp_path)


def test_samples_cells_and_suites_may_be_added() -> None:
    other = _plan().suites["s"].model_copy(update={"fingerprint": "x"})
    now = _plan(
        suite={"samples": ("b", "c"), "cells": ("drafter", "floor")}, provenance=({"date": "2"},)
    ).model_copy(update={"suites": {"s": _plan(suite={"samples": ("b", "c")}).suites["s"], "t": other}})
    plan = merged(_plan(), now, folder=Path("f"))
    assert plan.suites["s"].samples == ("a", "b", "c")
    assert plan.suites["s"].cells == ("floor", "ceiling")
    assert plan.suites["t"] == other
    assert [entry["date"] for entry in plan.provenance] == ["1", "2"]
    assert ("s", "c", "floor") in plan.keys


def test_what_comes_back_from_json_is_the_same_run(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        folder.write_plan(_plan())
    before = read_plan(tmp_path)
    assert before is not None
    merged(before, _plan(), folder=tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            {"system": {"verifier": {"name": "W", "params": 3}, "devices": ("cpu",)}},
            r'system.verifier.name: "V" there',
        ),
        ({"system": {"verifier": {"name": "V", "params": 3}}}, r'system.devices: \["cpu"\] there, null now'),
        ({"options": {"seed": 1}}, "options.seed: 0 there, 1 now"),
        ({"suite": {"fingerprint": "h"}}, 's.fingerprint: "f" there, "h" now'),
        ({"suite": {"gold_fingerprint": "h"}}, r"s.gold_fingerprint.*--rescore"),
        ({"suite": {"judge": "J"}}, r's.judge: null there, "J" now.*--rescore'),
    ],
)
def test_another_run_is_refused_with_what_differs(change: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"^f holds another run; {told}") as caught:
        merged(_plan(), _plan(**change), folder=Path("f"))
    assert "another --out" in str(caught.value)


def test_a_new_scoring_may_have_other_golds_and_another_judge_but_no_other_questions() -> None:
    plan = merged(
        _plan(), _plan(suite={"judge": "J", "gold_fingerprint": "h"}), folder=Path("f"), is_rescoring=True
    )
    assert (plan.suites["s"].judge, plan.suites["s"].gold_fingerprint) == ("J", "h")
    with pytest.raises(ConfigurationError, match="fingerprint"):
        merged(_plan(), _plan(suite={"fingerprint": "h"}), folder=Path("f"), is_rescoring=True)


def test_fingerprints_are_of_what_is_asked_and_of_the_golds(tmp_path: Path) -> None:
    samples = made_samples(3)
    assert fingerprint(samples) == fingerprint(made_samples(3))
    assert fingerprint(samples) != fingerprint(samples[:2])

    def changed(**fields: Any) -> tuple[bool, bool]:
        base: dict[str, Any] = {"suite": "s", "id": "x", "messages": [{"role": "user", "content": "a"}]}
        old, new = Sample(**base), Sample(**{**base, **fields})
        return (
            fingerprint([old]) != fingerprint([new]),
            gold_fingerprint([old]) != gold_fingerprint([new]),
        )

    assert changed(gold="g") == (False, True)
    assert changed(details={"k": 1}) == (False, True)
    assert changed(messages=[{"role": "user", "content": "b\ud800"}]) == (True, False)
    assert changed(max_tokens=9) == (True, False)
    assert changed(query="q") == (True, False)
    assert changed(groups={"a": "b"}) == (False, False)
    here, there = tmp_path / "a" / "f.txt", tmp_path / "b" / "f.txt"
    for place in (here, there):
        place.parent.mkdir()
        place.write_text("same")
    of_file = [
        fingerprint([Sample(suite="s", id="x", messages=(), files=(place,))]) for place in (here, there)
    ]
    assert of_file[0] == of_file[1]
    there.write_text("other")
    assert fingerprint([Sample(suite="s", id="x", messages=(), files=(there,))]) != of_file[0]
    assert gold_fingerprint([Sample(suite="s", id="x", messages=(), gold=here)]) == gold_fingerprint(
        [Sample(suite="s", id="x", messages=(), gold=there)]
    )
