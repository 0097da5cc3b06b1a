"""The benchmark of drafters of another family runs, on small models, and its counts add up."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import cross_family as benchmark
from tests.decoding.made_tokenizers import made

from .tiny_folder import save_model
from .two_families import models


def test_it_compares_ways_of_drafting_and_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [
        str(save_model(tmp_path / name, model.module, made(name)))
        for name, model in zip(("words", "digits"), models("words", "digits"), strict=True)
    ]
    output = tmp_path / "result.json"
    options = ["--prompts", "2", "--tokens", "8", "--dtype", "float32", "--output", str(output)]
    monkeypatch.setattr(sys, "argv", ["", "--pair", *folders, "--pair", folders[0], folders[0], *options])
    benchmark.main()
    printed = capsys.readouterr().out
    two, one = json.loads(output.read_text())["pairs"]
    assert (two["cross_family"], one["cross_family"]) == (True, False)
    assert "drafting" not in one
    for row in (two, one):
        found = row["asymspec"]
        assert found["drafted"] == 3 * found["blocks"]
        assert found["accepted"] <= found["drafted"]
        assert found["blocks"] <= found["emitted"] <= found["accepted"] + found["blocks"]
    mapped, free = two["drafting"]
    assert (mapped["way"], free["way"]) == ("mapped", "free")
    assert mapped["tokens"] == free["tokens"]
    for way in (mapped, free):
        assert way["drafter_forwards"] == benchmark.NUM_PLACES * way["blocks"]
        assert way["tokens"] <= way["accepted"] + way["blocks"]
    assert "free drafts" in printed
