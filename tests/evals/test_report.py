"""Reports of made-up runs: numbers worked out by hand, failures, unfinished runs, clusters, sweeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError
from evals.records import Record, Score
from evals.report import compare, results_table, write_report
from evals.suite import Suite

from .made_runs import AxisSuite, MadeSuite, answered, failed, make_run, sweep_records, write_run


@pytest.fixture(autouse=True)
def suite(monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, MadeSuite())


def use(monkeypatch: pytest.MonkeyPatch, suite: Suite) -> None:
    def named(name: str) -> Suite:
        if name == "made":
            return suite
        raise ConfigurationError(f"suite={name!r} is unknown")

    monkeypatch.setattr("evals.report.indexed.suite_named", named)


def report(records: list[Record], tmp_path: Path, **plan: Any) -> dict[str, Any]:
    write_report(write_run(tmp_path / "run", records, **plan), tmp_path / "report")
    content: dict[str, Any] = json.loads((tmp_path / "report" / "summary.json").read_text("utf-8"))
    return content


def rows(summary: dict[str, Any], section: int = 0) -> dict[str, dict[str, Any]]:
    return {row["cell"]: row for row in summary["suites"][0]["sections"][section]["rows"]}


def by_hand(num: int = 40) -> list[Record]:
    """Floor right on the first quarter, AsymSpec on the first half, the drafter on 30 %, Ceiling on 3/4."""
    shares = {
        "floor on extract@0.3": 0.25,
        "drafter": 0.3,
        "asymspec on extract@0.3": 0.5,
        "identical": 0.75,
        "ceiling": 0.75,
    }
    return [
        answered(f"q{i}", cell, float(i < share * num)) for i in range(num) for cell, share in shares.items()
    ]


def test_a_table_worked_out_by_hand(tmp_path: Path) -> None:
    found = rows(report(by_hand(), tmp_path))
    assert list(found) == [
        "floor on extract@0.3",
        "drafter",
        "asymspec on extract@0.3",
        "identical",
        "ceiling",
    ]
    main = found["asymspec on extract@0.3"]
    assert main["mean"]["value"] == 0.5
    assert (main["mean"]["low"], main["mean"]["high"]) == pytest.approx((0.3520, 0.6480), abs=5e-4)  # Wilson
    assert main["recovered"]["share"]["value"] == pytest.approx(0.5)
    assert main["recovered"]["status"] == "ok"
    gain = main["to_floor"]
    assert (gain["num_wins"], gain["num_losses"], gain["num_ties"]) == (10, 0, 30)
    assert gain["difference"]["value"] == 0.25
    assert gain["p_value"] == pytest.approx(2 / 2**10)
    assert main["to_drafter"]["difference"]["value"] == pytest.approx(0.2)
    assert main["to_ceiling"]["difference"]["value"] == -0.25
    assert found["identical"]["same_text"]["value"] == 1.0
    assert found["identical"]["to_ceiling"]["difference"]["note"] == "every pair ties"
    assert found["ceiling"]["recovered"] is None


def test_failures_stay_in_the_denominator_and_a_judges_are_told_apart(tmp_path: Path) -> None:
    records = [answered(f"q{i}", "ceiling", 1.0) for i in range(10)]
    records += [answered(f"q{i}", "floor on extract@0.3", 1.0) for i in range(6)]
    records += [failed(f"q{i}", "floor on extract@0.3") for i in range(6, 9)]
    records += [failed("q9", "floor on extract@0.3", "score")]
    row = rows(report(records, tmp_path))["floor on extract@0.3"]
    assert (row["num"], row["num_failed"], row["num_judge_failed"], row["num_missing"]) == (10, 3, 1, 0)
    assert row["mean"]["value"] == 0.6
    assert row["to_ceiling"]["num_losses"] == 4
    markdown = (tmp_path / "report" / "report.md").read_text("utf-8")
    assert "10 3 failed 1 not judged" in markdown


def test_an_unfinished_run_pairs_only_what_both_answered(tmp_path: Path) -> None:
    records = [answered(f"q{i}", "ceiling", 1.0) for i in range(20)]
    records += [answered(f"q{i}", "floor on extract@0.3", float(i >= 4)) for i in range(8)]
    summary = report(records, tmp_path)
    row = rows(summary)["floor on extract@0.3"]
    assert (row["num"], row["num_missing"]) == (8, 12)
    assert row["to_ceiling"]["difference"]["num"] == 8
    assert row["to_ceiling"]["difference"]["value"] == -0.5
    notes = " ".join(summary["suites"][0]["notes"])
    assert "floor on extract@0.3 8 of 20" in notes
    assert "drafter alone was not run" in notes


def test_clusters_are_drawn_whole_and_mcnemar_is_left_out(tmp_path: Path) -> None:
    records = [
        record.model_copy(update={"groups": {"cluster": f"c{int(record.sample[1:]) // 5}"}})
        for record in by_hand()
    ]
    summary = report(records, tmp_path)
    suite = summary["suites"][0]
    assert suite["num_clusters"] == 8
    assert rows(summary)["asymspec on extract@0.3"]["to_floor"]["p_value"] is None
    assert all(group["name"] != "cluster" for section in suite["sections"] for group in section["groups"])
    apart = rows(report(by_hand(), tmp_path / "apart"))["asymspec on extract@0.3"]["to_floor"]["difference"]
    together = rows(summary)["asymspec on extract@0.3"]["to_floor"]["difference"]
    assert together["high"] - together["low"] > apart["high"] - apart["low"]


def test_costs_are_relative_to_ceiling_over_shared_samples(tmp_path: Path) -> None:
    make_run(tmp_path / "run", num=12)
    write_report(tmp_path / "run", tmp_path / "report")
    summary = json.loads((tmp_path / "report" / "summary.json").read_text("utf-8"))
    costs = {cell: row["costs"] for cell, row in rows(summary).items()}
    main = costs["asymspec on truncate@500"]
    # 1.5 B · 500 + 0.5 B · (500 + 4000) against 1.5 B · 4000
    assert main["prefill_flops"]["value"] == pytest.approx(0.5)
    decoded = 1.5 * (536) + 0.5 * (536 + 4_036)
    assert main["total_flops"]["value"] == pytest.approx(decoded / (1.5 * 4_024))
    assert costs["drafter"]["prefill_flops"]["value"] == pytest.approx(1 / 3)
    assert costs["ceiling"]["total_flops"]["value"] == 1.0
    assert main["acceptance"] == pytest.approx(20 / 36)
    assert main["tokens_per_block"] == 2.0
    assert main["acceptance_per_position"][:2] == pytest.approx([11 / 12, 0.75])
    assert main["view_ratio"] == 0.125


def test_without_parameters_flops_are_unknown_and_said_so(tmp_path: Path) -> None:
    summary = report(by_hand(), tmp_path, system={"verifier": "big"})
    assert rows(summary)["ceiling"]["costs"]["total_flops"] is None or summary["suites"][0]["notes"]
    assert any(
        "parameters of: verifier, drafter. The FLOPs of" in note for note in summary["suites"][0]["notes"]
    )


@pytest.mark.parametrize(
    ("gains", "says"),
    [
        ({500: 0.8, 2_000: 0.4, 8_000: 0.1}, "grows with severity ("),
        ({500: 0.6, 2_000: 0.7, 8_000: 0.1}, "grows with severity, though not at every step"),
        ({500: 0.1, 2_000: 0.4, 8_000: 0.8}, "does not grow with severity: it shrinks"),
        ({500: 0.4, 2_000: 0.4, 8_000: 0.4}, "does not grow with severity beyond chance"),
    ],
)
def test_a_truncation_sweep_says_whether_recovery_grows(
    gains: dict[int, float], says: str, tmp_path: Path
) -> None:
    summary = report(sweep_records(gains), tmp_path)
    (sweep,) = summary["suites"][0]["sweeps"]
    assert says in sweep["statement"]
    assert [point["x"] for point in sweep["points"]] == sorted(gains, reverse=True)
    assert says.split(" (")[0] in (tmp_path / "report" / "report.md").read_text("utf-8")


def test_options_are_swept_with_the_default_in_its_place(tmp_path: Path) -> None:
    records = by_hand() + [
        answered(f"q{i}", f"asymspec:beta={beta} on extract@0.3", 1.0)
        for i in range(40)
        for beta in ("0.5", "2")
    ]
    (sweep,) = report(records, tmp_path)["suites"][0]["sweeps"]
    assert sweep["over"] == "beta"
    assert [point["x"] for point in sweep["points"]] == [0.5, 1.0, 2.0]
    assert sweep["points"][1]["cell"] == "asymspec on extract@0.3"


def test_official_figures_come_from_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use(monkeypatch, AxisSuite())
    axes = ["A"] * 30 + ["B"] * 10
    records = [
        answered(f"q{i}", "ceiling", float(axis == "B"), groups={"axis": axis}) for i, axis in enumerate(axes)
    ]
    row = rows(report(records, tmp_path))["ceiling"]
    assert row["mean"]["value"] == 0.25
    assert row["figure"]["estimate"]["value"] == 50.0  # axes count alike
    assert row["figure"]["parts"] == {"A": 0.0, "B": 100.0}


def test_results_by_group(tmp_path: Path) -> None:
    records = [
        record.model_copy(update={"groups": {"level": str(1 + int(record.sample[1:]) % 2)}})
        for record in by_hand()
    ]
    (group,) = report(records, tmp_path)["suites"][0]["sections"][0]["groups"]
    assert (group["name"], [row["value"] for row in group["rows"]]) == ("level", ["1", "2"])
    assert group["rows"][0]["means"]["ceiling"]["value"] == 0.75
    assert group["rows"][0]["num"] == 20


def test_an_unknown_suite_is_reported_by_its_first_value_and_without_texts(tmp_path: Path) -> None:
    records = [record.model_copy(update={"suite": "other"}) for record in by_hand()]
    summary = report(records, tmp_path)
    assert summary["suites"][0]["shows_texts"] is False
    assert rows(summary)["ceiling"]["mean"]["value"] == 0.75
    assert "answer 1" not in (tmp_path / "report" / "report.html").read_text("utf-8")


def test_a_score_without_the_metric_is_refused(tmp_path: Path) -> None:
    record = answered("q0", "ceiling", 1.0).model_copy(update={"score": Score(values={"other": 1.0})})
    with pytest.raises(ConfigurationError, match="made · q0 · ceiling has no value 'correct'"):
        report([record], tmp_path)


def test_a_scoring_under_way_is_told(tmp_path: Path) -> None:
    summary = report(by_hand(), tmp_path, rescoring=("made",))
    assert "side by side" in summary["suites"][0]["notes"][0]
    assert "side by side" in compare(tmp_path / "run", tmp_path / "run")


def test_a_report_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no run"):
        write_report(tmp_path, tmp_path / "report")
    write_run(tmp_path / "run", [])
    with pytest.raises(ConfigurationError, match="no records"):
        write_report(tmp_path / "run", tmp_path / "report")


def test_the_same_run_gives_the_same_files(tmp_path: Path) -> None:
    make_run(tmp_path / "run", num=15)
    for name in ("one", "two"):
        write_report(tmp_path / "run", tmp_path / name)
    for name in ("report.md", "report.html", "summary.json"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_the_readmes_table(tmp_path: Path) -> None:
    report(by_hand(), tmp_path)
    lines = results_table([tmp_path / "report" / "summary.json"]).splitlines()
    assert len(lines) == 3
    cells = [cell.strip() for cell in lines[2].strip("|").split("|")]
    assert cells[0] == "Made questions, extract@0.3"
    assert cells[1] == "40"
    assert cells[2].startswith("25.0 [")
    assert cells[6].startswith("50.0 [")
    assert cells[7].startswith("+25.0 [")
    assert cells[8] == "100.0 % like Ceiling"
    assert cells[10].endswith("×")
    path = tmp_path / "report" / "summary.json"
    summary = json.loads(path.read_text())
    summary["suites"][0]["provenance"]["num_parallel"] = "8"
    path.write_text(json.dumps(summary))
    assert results_table([path]).splitlines()[2].endswith("| – |")
    with pytest.raises(ConfigurationError, match="no summary"):
        results_table([tmp_path / "missing.json"])


def test_a_runs_plan_is_no_summary(tmp_path: Path) -> None:
    report(by_hand(), tmp_path)
    with pytest.raises(ConfigurationError, match="no summary of a report"):
        results_table([tmp_path / "run" / "run.json"])


def test_two_runs_are_compared_over_what_both_have(tmp_path: Path) -> None:
    write_run(tmp_path / "old", by_hand())
    better = [
        answered(r.sample, r.cell, 1.0, answer="new | `answer`")
        if r.cell == "drafter" and r.sample == "q39"
        else r
        for r in by_hand()
        if not (r.cell == "ceiling" and r.sample == "q0")
    ]
    write_run(tmp_path / "new", better, provenance=({"date": "2026-12-01", "torch": "2.14"},))
    text = compare(tmp_path / "old", tmp_path / "new")
    assert "| drafter | 40 | 30.0 | 32.5 | +2.5" in text
    assert "| ceiling | 39 |" in text
    assert "| torch | 2.13 | 2.14 |" in text
    assert "1 answers changed" in text
    assert "new &#124; &#96;answer&#96;" in text
    with pytest.raises(ConfigurationError, match="share no sample"):
        compare(tmp_path / "old", write_run(tmp_path / "none", [answered("x", "ceiling", 1.0)]))
