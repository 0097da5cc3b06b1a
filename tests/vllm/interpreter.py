"""Tests in a process of their own: what is decided when vLLM is imported can't be two ways in one.

That is which of its runners a machine can have (the second needs Triton, here its interpreter), and whether
there is a torchvision.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

__all__ = ["environment", "run_tests"]

ROOT = Path(__file__).parents[2]
HERE = ROOT / "tests" / "vllm"
COMMON = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "passive",
}
OF_RUNNER = {
    1: {"VLLM_USE_V2_MODEL_RUNNER": "0", "TRITON_INTERPRET": "0"},
    2: {"VLLM_USE_V2_MODEL_RUNNER": "1", "TRITON_INTERPRET": "1"},
}
THEIRS = ("VLLM_PLUGINS", "VLLM_TARGET_DEVICE")  # would keep the interpreter out


def environment(runner: int) -> dict[str, str]:
    """The variables of such a process, on the first or the second of vLLM's runners."""
    folders = [ROOT, ROOT / "integrations"]  # found by workers too
    if runner == 2:
        folders.insert(0, HERE / "interp")
    if find_spec("torchvision") is None:
        folders.append(HERE / "vision_stub")
    env = {name: value for name, value in os.environ.items() if name not in THEIRS}
    env |= COMMON | OF_RUNNER[runner]
    env["PYTHONPATH"] = os.pathsep.join([*map(str, folders), env.get("PYTHONPATH", "")])
    return env


def run_tests(file: str, *arguments: str, runner: int = 2) -> None:
    """Runs the tests of a file beside this one, on the first or the second of vLLM's runners.

    Fails with what they print; skips where all of them do.
    """
    flags = ["-q", "-rs", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", f"tests/vllm/{file}", *flags, *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=environment(runner), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise AssertionError(
            f"{file} failed ({done.returncode}):\n{done.stdout[-20000:]}\n{done.stderr[-3000:]}"
        )
    if " passed" not in done.stdout:
        pytest.skip(done.stdout[-1000:])
