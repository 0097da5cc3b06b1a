"""The engine's benchmark runs, on small models, and says where its figures come from."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import engine as benchmark
from benchmarks.passages import long_text, passages


def test_the_tiny_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "results" / "engine.json"
    monkeypatch.setattr(sys, "argv", ["engine.py", "--tiny", "--output", str(output)])
    benchmark.main()
    result = json.loads(output.read_text("utf-8"))
    assert {"date", "machine", "cpu", "python", "torch", "transformers", "revision", "num_blocks"} <= set(
        result["provenance"]
    )
    assert [row["arm"] for row in result["arms"]] == [*benchmark.ARMS] * len(benchmark.TINY_PLAN.lengths)
    for row in result["arms"]:
        forwarded = row["forwarded_tokens"]
        prompt = row["full_tokens"] if row["arm"] == "ceiling" else row["compressed_tokens"]
        assert forwarded["verifier"] >= prompt + benchmark.TINY_PLAN.output_tokens - 1
        assert (forwarded["drafter"] > 0) == (row["arm"] == "asymspec")
    for row in result["turns"][1 : benchmark.TINY_PLAN.num_turns]:
        assert row["forwarded_tokens"]["drafter"] < row["full_tokens"]  # the rest was read in turns before
    assert all(row["ratio"] > 0 for row in result["block"])
    assert "accepted" in capsys.readouterr().out


def test_made_up_passages_vary_and_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASYMSPEC_DATA", raising=False)
    first = passages(40)
    assert passages(40) == first
    assert len(set(first)) == 40
    assert all(len(passage) >= 600 for passage in first)
    assert passages(2, seed=1) != first[:2]
    assert len(long_text(30_000)) >= 30_000
