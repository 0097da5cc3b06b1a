"""A table: drawn by rich in a terminal where it is installed, aligned text elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TextIO

__all__ = ["print_table", "printable"]


def print_table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    total: Sequence[str] | None = None,
    *,
    stream: TextIO | None = None,
) -> None:
    """Prints the rows under their headings, and a closing row apart; to standard output by default."""
    stream = sys.stdout if stream is None else stream
    rows = [[printable(cell) for cell in row] for row in rows]
    if stream.isatty():
        try:
            from rich.box import SIMPLE_HEAD
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text
        except ImportError:  # the plain form says the same
            pass
        else:
            table = Table(*columns, box=SIMPLE_HEAD)
            for row in rows:
                table.add_row(*map(Text, row))
            if total is not None:
                table.add_section()
                table.add_row(*map(Text, total), style="bold")
            Console(file=stream).print(table)
            return
    _print_plain(columns, rows, total, stream)


def _print_plain(
    columns: Sequence[str], rows: Sequence[Sequence[str]], total: Sequence[str] | None, stream: TextIO
) -> None:
    lines = [columns, *rows, *([total] if total is not None else [])]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    rule = "  ".join("-" * width for width in widths)
    for index, line in enumerate(lines):
        if index == 1 or (index == len(lines) - 1 and total is not None and index > 1):
            print(rule, file=stream)
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print("  ".join(cells).rstrip(), file=stream)


def printable(text: str) -> str:
    """The text without control characters: files from elsewhere must not drive the terminal."""
    return "".join(character if character.isprintable() else "�" for character in text)
