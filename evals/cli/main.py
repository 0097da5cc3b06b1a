"""The command line of the evaluation: its subcommands.

Exit codes: 0 done; 1 done, with failures that were told; 2 an error with a message; 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asymspec_agents.cli.frame import Command, run_line

from . import compare, listing, report, run, table

__all__ = ["main"]

COMMANDS: Mapping[str, Command] = {
    "list": listing,
    "run": run,
    "report": report,
    "compare": compare,
    "table": table,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (the process's own by default) and returns its exit code.

    Raises SystemExit, as argparse does, for `--help`, `--version` and usage errors.
    """
    description = "Benchmarks over every arm and view, with costs and paired statistics."
    return run_line(COMMANDS, argv, prog="python -m evals", description=description)
