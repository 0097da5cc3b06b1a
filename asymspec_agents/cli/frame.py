"""The frame of a command line: parses it, runs the subcommand, turns errors into exit codes.

Exit codes: the subcommand's own; 2 for an error with a message (usage, AsymSpecError, files); 130 after
Ctrl-C; 141 when the reader of a pipe went away, as for any program that a closed pipe ends.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from .._version import __version__
from ..errors import AsymSpecError

__all__ = ["Command", "run_line"]


class Command(Protocol):
    """What a subcommand's module offers."""

    def add_parser(self, subparsers: Any) -> None: ...

    def run(self, args: argparse.Namespace) -> int: ...


def run_line(
    commands: Mapping[str, Command], argv: Sequence[str] | None, *, prog: str, description: str
) -> int:
    """Runs one command line (the process's own where `argv` is None) and returns its exit code.

    Raises SystemExit, as argparse does, for `--help`, `--version` and usage errors.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(
            stream, io.TextIOWrapper
        ):  # a terminal that can't show a character must not end the run
            stream.reconfigure(errors="backslashreplace")
    args = _parser(commands, prog, description).parse_args(argv)
    try:
        code = commands[args.command].run(args)
        sys.stdout.flush()  # a closed pipe shows here, not at exit where nobody catches it
        return code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _silence_stdout()
        return 141
    except (AsymSpecError, OSError) as error:
        if args.debug:
            raise
        print(f"error: {_message(error)}", file=sys.stderr)
        return 2


def _parser(commands: Mapping[str, Command], prog: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("--version", action="version", version=f"asymspec {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="command")
    for module in commands.values():
        module.add_parser(subparsers)
    for subparser in subparsers.choices.values():  # --debug may stand on either side of the command
        subparser.add_argument(
            "--debug", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS
        )
    return parser


def _message(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and not isinstance(error, AsymSpecError):
        return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror
    return str(error) or type(error).__name__


def _silence_stdout() -> None:
    """Sends what is still buffered nowhere, so that the interpreter's last flush can't fail."""
    with contextlib.suppress(OSError, ValueError):  # stdout may be no file of its own (a test, a notebook)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
