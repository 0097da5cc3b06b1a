"""Tests in a process of their own, where Triton's kernels run in its interpreter.

vLLM decides when it is imported which of its runners a machine can have, so it can't be both in one process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

__all__ = ["run_tests"]

ROOT = Path(__file__).parents[2]
FOLDERS = (ROOT / "tests" / "vllm" / "interp", ROOT, ROOT / "integrations")  # found by workers too
OURS = {
    "TRITON_INTERPRET": "1",
    "VLLM_USE_V2_MODEL_RUNNER": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
}
THEIRS = ("VLLM_PLUGINS", "VLLM_TARGET_DEVICE")  # would keep the interpreter out


def run_tests(file: str, *arguments: str) -> None:
    """Runs the tests of a file beside this one. Fails with what they print; skips where all of them do."""
    env = {name: value for name, value in os.environ.items() if name not in THEIRS} | OURS
    env["PYTHONPATH"] = os.pathsep.join([*map(str, FOLDERS), env.get("PYTHONPATH", "")])
    flags = ["-q", "-rs", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", f"tests/vllm/{file}", *flags, *arguments]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(
            f"{file} failed ({done.returncode}):\n{done.stdout[-20000:]}\n{done.stderr[-3000:]}"
        )
    if " passed" not in done.stdout:
        pytest.skip(done.stdout[-1000:])
