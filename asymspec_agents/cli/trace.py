"""`asymspec trace`: what a trace file tells, in the terminal, as a page, or beside another."""

from __future__ import annotations

import argparse
from typing import Any

from . import trace_pages, trace_show

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Adds the `trace` command with its actions."""
    parser = subparsers.add_parser("trace", help="show, view and compare trace files")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    trace_show.add_parser(actions)
    trace_pages.add_parsers(actions)


def run(args: argparse.Namespace) -> int:
    """The action's exit code."""
    return trace_show.run(args) if args.action == "show" else trace_pages.run(args)
