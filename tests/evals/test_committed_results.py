"""The committed results: what the README shows is their table, and each has what a claim needs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evals.report import results_table
from tests.architecture import ROOT

RESULTS = tuple(sorted((ROOT / "evals" / "results").glob("*.json")))
BEGIN, END = "<!-- results: begin -->\n", "<!-- results: end -->"


def suites() -> list[tuple[str, dict[str, Any]]]:
    return [(path.stem, suite) for path in RESULTS for suite in json.loads(path.read_text("utf-8"))["suites"]]


def test_the_readmes_table_is_generated_from_them() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert readme.partition(BEGIN)[2].partition(END)[0].strip() == results_table(RESULTS).strip()


@pytest.mark.parametrize(("name", "suite"), suites(), ids=[name for name, _ in suites()])
def test_each_has_its_controls_and_provenance(name: str, suite: dict[str, Any]) -> None:
    assert {"date", "cpu", "revision", "torch", "system.verifier", "dataset"} <= suite["provenance"].keys()
    assert suite["provenance"]["suite"] == name
    for section in suite["sections"]:
        cells = {row["cell"]: row for row in section["rows"]}
        view = section["view"]
        assert {"drafter", "identical", "ceiling", f"floor on {view}", f"asymspec on {view}"} <= cells.keys()
        assert not any(row["num_missing"] for row in section["rows"])
        assert cells["identical"]["same_text"] is not None


def test_they_cover_what_the_readme_speaks_of() -> None:
    names = {name for name, _ in suites()}
    assert {"api_bank", "bfcl_simple", "multihop", "react_multihop"} <= names
    (multihop,) = (suite for name, suite in suites() if name == "multihop")
    assert len([section for section in multihop["sections"] if section["view"] is not None]) >= 3
