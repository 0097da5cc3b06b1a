"""`table SUMMARY…`: the README's table of committed results."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Adds the `table` command."""
    parser = subparsers.add_parser("table", help="print reports' summaries as one Markdown table")
    parser.add_argument(
        "summaries",
        nargs="+",
        type=Path,
        metavar="SUMMARY",
        help="a report's summary.json, or a committed one",
    )


def run(args: argparse.Namespace) -> int:
    """Prints the table. Raises ConfigurationError where a file is no summary."""
    from ..report import results_table

    print(results_table(args.summaries), end="")
    return 0
