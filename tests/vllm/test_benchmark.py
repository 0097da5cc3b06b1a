"""The plugin's benchmark runs, on small models, against vLLM itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import pytest

from tests.architecture import ROOT

from .engines import needs_vllm

needs_vllm()

pytestmark = [pytest.mark.full, pytest.mark.slow]

NUM_PLACES = 3  # K + 1, with the default K


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Of a run of the script, as a user starts it."""
    output = tmp_path_factory.mktemp("results") / "vllm.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "vllm.py"), "--small", "--output", str(output)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=540)
    assert done.returncode == 0, done.stderr
    for arm in ("asymspec", "plain full", "draft compressed"):
        assert arm in done.stdout
    found: dict[str, Any] = json.loads(output.read_text("utf-8"))
    return found


def rows(result: dict[str, Any], part: str) -> Iterator[dict[str, Any]]:
    for engine in result["engines"]:
        yield from engine[part]


def test_it_says_where_its_figures_come_from(result: dict[str, Any]) -> None:
    assert {"date", "machine", "cpu", "torch", "revision", "num_threads"} <= set(result["provenance"])
    assert result["provenance"]["models"] == {"verifier": "verifier", "drafter": "drafter"}


def test_every_arm_is_measured_on_what_it_reads(result: dict[str, Any]) -> None:
    cells = result["plan"]["cells"]
    views = {(cell["full_tokens"], cell["batch"]) for cell in cells}
    for arm, measured in groupby(rows(result, "cells"), key=lambda row: row["arm"]):
        found = list(measured)
        assert len(found) == (len(views) if arm.endswith("full") else len(cells))
        assert all((row["compressed_tokens"] is None) == arm.endswith("full") for row in found)


def test_cells_start_from_empty_caches(result: dict[str, Any]) -> None:
    for row in rows(result, "cells"):
        assert len(row["cached_tokens"]) == row["batch"]
        for cached in row["cached_tokens"]:
            assert cached in (0, {"verifier": 0, "base": 0, "drafter": 0})


def test_steps_hold_forwards_and_emit_tokens(result: dict[str, Any]) -> None:
    for row in rows(result, "cells"):
        assert 0 < row["time_to_first_token_s"] <= row["last_first_token_s"] <= row["total_s"]
        assert row["step_over_forwards"] > 1
        most = 1 if row["arm"].startswith("plain") else NUM_PLACES
        assert 1 <= row["tokens_per_step"] <= most
        assert (row["acceptance"] is None) == row["arm"].startswith("plain")


def test_a_conversation_keeps_its_caches(result: dict[str, Any]) -> None:
    turns = list(rows(result, "turns"))
    assert {row["arm"] for row in turns} == {row["arm"] for row in rows(result, "cells")}
    for row in turns:
        (cached,) = row["cached_tokens"]
        full_cached = cached["drafter"] if isinstance(cached, dict) else cached
        if row["arm"] in ("asymspec", "plain full", "draft full"):
            assert (full_cached > 0) == (row["turn"] > 0)


def test_an_arrival_is_waited_for(result: dict[str, Any]) -> None:
    arrivals = list(rows(result, "arrivals"))
    assert [row["reading"] for row in arrivals if row["arm"] == "asymspec"] == ["as set", "in one step"]
    assert all(row["longest_wait_s"] > 0 for row in arrivals)
