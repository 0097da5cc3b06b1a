"""Plain requests beside AsymSpec ones get what stock vLLM gives them, drafting with the same draft model."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from .engines import needs_vllm

needs_vllm()

from .interpreter import ROOT, environment  # noqa: E402
from .models import save_pair  # noqa: E402
from .plain_answers import NAMES  # noqa: E402

pytestmark = pytest.mark.full

TOLERANCE = 1e-3
TIME_LIMIT_S = 600

Answers = dict[str, list[dict[str, Any]]]


def answers(kind: str, runner: str, folder: Path) -> Answers:
    """What that engine gave, in a process of its own."""
    out = folder / f"{kind}-{runner}.json"
    line = [sys.executable, "-m", "tests.vllm.plain_answers", kind, str(folder), str(out)]
    done = subprocess.run(
        line,
        cwd=ROOT,
        env=environment(1 if runner == "V1" else 2),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIME_LIMIT_S,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    told: Answers = json.loads(out.read_text("utf-8"))
    return told


@pytest.mark.parametrize("runner", ["V1", pytest.param("V2", marks=pytest.mark.slow)])
def test_plain_requests_get_what_stock_vllm_gives(tmp_path: Path, runner: str) -> None:
    if runner == "V2" and find_spec("triton") is None:
        pytest.skip("Triton is not installed; vLLM's second model runner needs it")
    save_pair(tmp_path)
    stock, ours = (answers(kind, runner, tmp_path) for kind in ("stock", "asymspec"))
    assert set(ours) == {"alone", "together", "mixed", "mixed, some aborted"}
    for run, given in ours.items():
        for index, (mine, theirs, alone) in enumerate(
            zip(given, stock["together"], stock["alone"], strict=True)
        ):
            place = run, NAMES[index // 2], index % 2
            assert mine["tokens"] == theirs["tokens"] == alone["tokens"], place
            assert mine["finish_reason"] == theirs["finish_reason"], place
            assert mine["reports"] is None, place
            for name in ("logprobs", "prompt_logprobs"):
                assert _same(mine[name], theirs[name]), (place, name)
    assert len({tuple(answer["tokens"]) for answer in stock["alone"]}) == 2 * len(NAMES)
    assert {answer["finish_reason"] for answer in stock["alone"]} == {"length", "stop"}
    assert any(answer["prompt_logprobs"] for answer in stock["alone"])


def _same(mine: list[dict[str, Any]], theirs: list[dict[str, Any]]) -> bool:
    """The same tokens with the same ranks, and log-probabilities as equal as float32 has them."""
    return [row.keys() for row in mine] == [row.keys() for row in theirs] and all(
        abs(row[token][0] - other[token][0]) < TOLERANCE and row[token][1] == other[token][1]
        for row, other in zip(mine, theirs, strict=True)
        for token in row
    )
