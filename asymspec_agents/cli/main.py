"""The `asymspec` command: its subcommands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import compress, demo, doctor, gateway, models, serve, trace, vllm, vocab
from .frame import Command, run_line

__all__ = ["main"]

COMMANDS: Mapping[str, Command] = {
    "demo": demo,
    "serve": serve,
    "gateway": gateway,
    "vllm": vllm,
    "doctor": doctor,
    "models": models,
    "vocab": vocab,
    "compress": compress,
    "trace": trace,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command line (the process's own by default) and returns its exit code.

    Raises SystemExit, as argparse does, for `--help`, `--version` and usage errors.
    """
    description = "Context-asymmetric speculative decoding for agents."
    return run_line(COMMANDS, argv, prog="asymspec", description=description)
