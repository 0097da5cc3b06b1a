"""The long run's short form: the real server, random requests, clients that die, nothing left behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="the server is vLLM's", exc_type=ImportError)

from tests.architecture import ROOT

pytestmark = pytest.mark.full

TIME_LIMIT_S = 900
NUM_DOCUMENT_TOKENS = 12_000


def test_a_short_long_run_is_sound(tmp_path: Path) -> None:
    line = [sys.executable, str(ROOT / "benchmarks" / "vllm_long_run.py"), "--folder", str(tmp_path)]
    line += ["--num-requests", "240", "--document-tokens", str(NUM_DOCUMENT_TOKENS), "--one-server"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        line, env=environment, capture_output=True, text=True, check=False, timeout=TIME_LIMIT_S
    )
    assert done.stdout, done.stderr[-4000:]
    told = json.loads(done.stdout.splitlines()[-1])
    run = told["run"]
    assert run["faults"] == []
    assert not any(run["left"].values()), run["left"]
    assert run["is_sound"], run
    assert done.returncode == (0 if run["is_memory_flat"] else 1)
    assert run["num_killed"] > 10
    assert run["num_repeated"] > 5
    assert sum(kind.startswith("refused") for kind in run["kinds"]) >= 5
    assert 0.1 < run["accepted_of_drafted"] < 0.95
    num_chunks = NUM_DOCUMENT_TOKENS // told["stalls"]["in_chunks"]["prefill_tokens"]
    assert told["stalls"]["in_chunks"]["bystander_tokens_meanwhile"] >= num_chunks  # one in each step
