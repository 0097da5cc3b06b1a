"""Tests in a process of their own, where Triton's kernels run in its interpreter.

vLLM decides when it is imported which of its runners a machine can have, so it can't be both in one process.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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


def run_tests(file: str, *arguments: str) -> None:
    """Runs the tests of a file beside this one; fails with what they print."""
    env = {**os.environ, **OURS}
    env.pop("VLLM_PLUGINS", None)  # would keep the interpreter's out
    env["PYTHONPATH"] = os.pathsep.join([*map(str, FOLDERS), env.get("PYTHONPATH", "")])
    command = [
        sys.executable,
        "-m",
        "pytest",
        f"tests/vllm/{file}",
        "-q",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(
            f"{file} failed ({done.returncode}):\n{done.stdout[-20000:]}\n{done.stderr[-3000:]}"
        )
