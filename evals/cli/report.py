"""`report FOLDER`: what a run found, as Markdown, a self-contained page, and JSON."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Adds the `report` command."""
    parser = subparsers.add_parser(
        "report", help="write a run's report: report.md, report.html, summary.json"
    )
    parser.add_argument("folder", type=Path, help="the run's folder; it may still be running")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where to write (default: FOLDER/report)")


def run(args: argparse.Namespace) -> int:
    """Writes the report and tells its files. Returns 0."""
    from evals.report import write_report

    output: Path = args.out or args.folder / "report"
    write_report(args.folder, output)
    for name in ("report.md", "report.html", "summary.json"):
        print(output / name)
    return 0
