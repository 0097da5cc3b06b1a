"""The real server, started by the command in a process of its own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from tests.architecture import ROOT

__all__ = ["serving"]

START_S = 300


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def wait_until_ready(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            if httpx.get(f"{url}/health", timeout=5).status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.5)
    pytest.fail("the server did not start:\n" + log.read_text("utf-8", "replace")[-4_000:])


@contextmanager
def serving(folder: Path, verifier: Path, drafter: Path, *flags: str) -> Iterator[str]:
    """The address of a server of that pair, which calls itself `pair`; `folder` gets its log."""
    port, log = free_port(), folder / "log.txt"
    line = [sys.executable, "-m", "asymspec_agents", "vllm", "serve", str(verifier)]
    line += ["--drafter", str(drafter), "--served-model-name", "pair"]
    line += ["--host", "127.0.0.1", "--port", str(port), "--dtype", "float32", "--enforce-eager"]
    line += ["--max-model-len", "512", "--max-num-seqs", "8", "--kv-cache-memory-bytes", "8000000"]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "integrations")]),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": "1",
        "VLLM_NO_USAGE_STATS": "1",
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*line, *flags], env=environment, cwd=folder, stdout=output, stderr=output, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(process, url, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
