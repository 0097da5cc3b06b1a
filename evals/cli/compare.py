"""`compare LEFT RIGHT`: what two runs share, side by side."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Adds the `compare` command."""
    parser = subparsers.add_parser("compare", help="compare two runs on the samples they share, as Markdown")
    parser.add_argument("left", type=Path, help="a run's folder")
    parser.add_argument("right", type=Path, help="another run's folder")


def run(args: argparse.Namespace) -> int:
    """Prints the comparison. Returns 0."""
    from evals.report import compare

    sys.stdout.write(compare(args.left, args.right).rstrip("\n") + "\n")
    return 0
