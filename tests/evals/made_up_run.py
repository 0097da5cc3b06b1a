"""`python -m evals` over the made-up suite and system, in a process of its own that tests may kill.

`python -m tests.evals.made_up_run SECONDS DIES_IN ARGUMENTS…`: each answer takes so many seconds; the process
kills itself in the middle of writing record number DIES_IN (0: never).
"""

from __future__ import annotations

import os
import signal
import sys
import time

import evals.systems
from evals.cli.main import main
from evals.sample import Sample
from evals.suites import SUITES
from tests.evals import made_up


def _run(seconds: float, dies_in: int, argv: list[str]) -> int:
    def slow(sample: Sample) -> str:
        time.sleep(seconds)
        return str(sample.gold)

    write, num_written = os.write, 0

    def torn(handle: int, data: bytes) -> int:
        nonlocal num_written
        if data.startswith(b'{"suite"'):
            num_written += 1
            if num_written == dies_in:
                write(handle, data[: len(data) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
        return write(handle, data)

    os.write = torn
    sys.modules["evals.suites.made_up"] = made_up
    SUITES["made_up"] = "made_up:MadeUp"
    system = made_up.MadeSystem(dict.fromkeys(("floor", "ceiling", "drafter", "asymspec"), slow))
    evals.systems.open_system = lambda options: system  # type: ignore[assignment, return-value]
    return main(argv)


if __name__ == "__main__":
    sys.exit(_run(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
