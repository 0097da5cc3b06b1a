"""Every example runs as its user would run it, is short, and says so when something is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
EXPECTED = {
    "01_router.py": ("request 1234 failed: TimeoutError", "begins alike: True"),
    "02_smolagents_routed_model.py": ("answer: disk /dev/sdb1 is full", "with the error line"),
    "03_http.py": ("verifier: scripted", "answer: disk /dev/sdb1 is full"),
    "05_langchain_agent.py": ("answer: disk /dev/sdb1 is full", "'is full' in them: True"),
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_runs(example: Path) -> None:
    path = os.pathsep.join((str(ROOT), str(ROOT / "integrations")))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for text in EXPECTED[example.name]:
        assert text in done.stdout


def test_examples_are_short() -> None:
    assert EXAMPLES
    assert all(len(path.read_text("utf-8").splitlines()) < 60 for path in EXAMPLES)
