"""A real `asymspec serve` process: started, waited for, told to stop, and it has to end by itself."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Iterator

from tests.architecture import ROOT

__all__ = ["serve_process"]

LOADING_S = 300


@contextlib.contextmanager
def serve_process(*flags: str, api_key: str | None = None) -> Iterator[str]:
    """The address of a server process with these flags, and with a free port."""
    command = [sys.executable, "-m", "asymspec_agents", "serve", "--port", "0", *flags]
    environment = {name: value for name, value in os.environ.items() if name != "ASYMSPEC_API_KEY"}
    if api_key is not None:
        environment["ASYMSPEC_API_KEY"] = api_key
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment)
    assert server.stdout is not None
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    stdout = server.stdout

    def read() -> None:
        for line in stdout:
            lines.put(line)
        lines.put("")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    try:
        yield _address(lines)
    finally:
        server.terminate()
        try:
            server.wait(60)
        finally:
            server.kill()
            server.wait()
            reader.join()
            stdout.close()


def _address(lines: queue.SimpleQueue[str]) -> str:
    while line := lines.get(timeout=LOADING_S):
        if ready := re.match(r"Ready: (\S+)", line):
            return ready[1]
    raise AssertionError("the server ended before it was ready")
