"""Every suite and every arm on ten made records, by the command line alone: run, go on, score, report."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from evals.records import Record
from evals.suites import SUITES
from tests.evals.made_releases import NUM_RECORDS
from tests.evals.smoke import ARMS, NAMES, Smoke, open_smoke

CONTROLS = ("ceiling", "identical")
FEW = ("floor", "drafter", "asymspec", *CONTROLS)
TWO = ("bfcl_simple", "longbench_hotpotqa")  # a signature view and a shortened text
CELLS_BY_ARM = {arm: arm if arm in ("drafter", "symmetric_full", *CONTROLS) else f"{arm} on " for arm in ARMS}


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Smoke]:
    with open_smoke(tmp_path_factory.mktemp("smoke")) as opened:
        yield opened


def check_control(records: dict[tuple[str, str, str], Record]) -> None:
    """Ceiling and AsymSpec on identical views say the same, call by call."""
    said = {}
    for key, record in records.items():
        if record.cell in CONTROLS:
            assert record.output is not None
            texts = [call.text for call in record.output.calls]
            said[key] = (record.output.answer, record.output.tool_calls, texts)
    pairs = {key[:2] for key in said}
    assert len(said) == 2 * len(pairs) > 0
    for pair in pairs:
        assert said[(*pair, "ceiling")] == said[(*pair, "identical")], pair


def check_report(smoke: Smoke, name: str, num: int, suites: tuple[str, ...]) -> dict[str, set[str]]:
    """The report's files name everything with its n; returns each suite's cells."""
    folder = smoke.folder / name
    told = smoke("report", str(folder))
    assert told.code == 0, told.err
    written = [Path(line) for line in told.out.splitlines()]
    assert [path.name for path in written] == ["report.md", "report.html", "summary.json"]
    markdown, page, summary = (path.read_text("utf-8").replace("\\_", "_") for path in written)
    cells: dict[str, set[str]] = {}
    for suite in json.loads(summary)["suites"]:
        assert suite["num_samples"] == num
        rows = [row for section in suite["sections"] for row in section["rows"]]
        for row in rows:
            counts = (row["num"], row["num_missing"], row["num_failed"], row["num_judge_failed"])
            assert counts == (num, 0, 0, 0), (suite["name"], row["cell"])
            assert row["cell"].partition(" on ")[0] in markdown
            assert row["cell"].partition(" on ")[0] in page
        cells[suite["name"]] = {row["cell"] for row in rows}
    assert cells.keys() == set(suites)
    assert all(suite in markdown and suite in page for suite in suites)
    return cells


def check_complete(records: dict[tuple[str, str, str], Record], cells: dict[str, set[str]], num: int) -> None:
    """One record for every suite, sample and cell."""
    for suite, those in cells.items():
        samples = {key[1] for key in records if key[0] == suite}
        assert len(samples) == num
        assert {key for key in records if key[0] == suite} == {
            (suite, sample, cell) for sample in samples for cell in those
        }


def test_every_suite_on_a_record_each(smoke: Smoke) -> None:
    told = smoke.run("one", "--samples", "1", "--arm", "asymspec", *CONTROLS)
    assert told.code == 0, told.err
    records = smoke.records("one")
    check_control(records)
    check_complete(records, check_report(smoke, "one", 1, NAMES), 1)


@pytest.mark.full
def test_ten_records_of_every_suite(smoke: Smoke) -> None:
    dry = smoke.run("all", "--samples", "10", "--arm", *FEW, "--dry-run")
    assert dry.code == 0, dry.err
    assert not (smoke.folder / "all").exists()
    told = smoke.run("all", "--samples", "10", "--arm", *FEW)
    assert told.code == 0, told.err
    assert dry.out.splitlines()[-1].split()[1] == told.out.partition(" records")[0]
    told = smoke.run("all", "--arm", "asymspec", "--view", "truncate@0.4")
    assert told.code == 0, told.err
    records = smoke.records("all")
    check_control(records)
    cells = check_report(smoke, "all", NUM_RECORDS, NAMES)
    check_complete(records, cells, NUM_RECORDS)
    for those in cells.values():
        assert {cell.partition(" on ")[0] for cell in those} == set(FEW)
        assert "asymspec on truncate@0.4" in those

    again = smoke.run("all", "--samples", "10", suites=())
    assert again.code == 2  # the agents' web is named in every command
    assert "needs a cassette" in again.err
    dry = smoke.run("all", "--dry-run")
    assert dry.out.splitlines()[-1].split()[1:3] == [f"{len(records):,}"] * 2
    replies = (smoke.folder / "all" / "judge.jsonl").read_bytes()
    told = smoke.run("all", "--rescore")
    assert told.code == 0, told.err
    assert (smoke.folder / "all" / "judge.jsonl").read_bytes() == replies
    scored = smoke.records("all")
    assert scored.keys() == records.keys()
    for key, record in scored.items():
        assert (record.score, record.version) == (records[key].score, 1)  # nothing comes out otherwise


@pytest.mark.full
def test_every_arm_on_two_views(smoke: Smoke) -> None:
    for name, views in (("left", ()), ("right", ("--view", "head@0.4"))):
        told = smoke.run(name, "--samples", "10", "--arm", *ARMS, *views, suites=TWO)
        assert told.code == 0, told.err
        records = smoke.records(name)
        check_control(records)
        cells = check_report(smoke, name, NUM_RECORDS, TWO)
        check_complete(records, cells, NUM_RECORDS)
        for those in cells.values():
            assert len(those) == len(ARMS)
            assert all(any(cell.startswith(start) for cell in those) for start in CELLS_BY_ARM.values())
    told = smoke("compare", str(smoke.folder / "left"), str(smoke.folder / "right"))
    assert told.code == 0, told.err
    for word in (*TWO, *CONTROLS, "drafter", "symmetric_full"):
        assert word.replace("_", r"\_") in told.out  # as Markdown has it


def test_the_lists_name_what_the_smoke_asks(smoke: Smoke) -> None:
    told = smoke("list")
    assert told.code == 0
    for name in (*SUITES, *(arm for arm in ARMS if "+" not in arm)):
        assert f"\n{name} " in told.out
