"""A table as data, and as Markdown; the page renders the same tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .safe import visible

__all__ = ["Column", "Entry", "Table", "markdown_table", "markdown_text"]


@dataclass(frozen=True, slots=True)
class Entry:
    """A cell of a table: its main text, and what stands small beside it."""

    text: str
    small: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, what it means, and whether its entries are numbers."""

    heading: str
    meaning: str = ""
    is_number: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of entries; `marked` are the rows that a reader looks for first."""

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Entry, ...], ...]
    marked: frozenset[int] = frozenset()

    def without_empty_columns(self) -> Table:
        """The table less the columns where no row has anything."""
        kept = [i for i in range(len(self.columns)) if any(row[i].text.strip("–") for row in self.rows)]
        return Table(
            self.caption,
            tuple(self.columns[i] for i in kept),
            tuple(tuple(row[i] for i in kept) for row in self.rows),
            self.marked,
        )


def markdown_table(table: Table) -> str:
    """The table as GitHub's Markdown; names are escaped, marked rows bold."""
    lines = [
        _row([column.heading for column in table.columns]),
        _row(["---:" if column.is_number else "---" for column in table.columns], escape=False),
    ]
    for number, row in enumerate(table.rows):
        texts = [markdown_text(" ".join((entry.text, *entry.small.splitlines()))) for entry in row]
        if number in table.marked:
            texts[0] = f"**{texts[0]}**"
        lines.append(_row(texts, escape=False))
    return "\n".join(lines) + "\n"


def markdown_text(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    text = visible(text)
    text = "".join(f"&#{ord(c)};" if c in "|<>&`*\\$~" or (c in "[]" and "](" in text) else c for c in text)
    return " ".join(text.replace("_", "\\_").split())


def _row(texts: Sequence[str], *, escape: bool = True) -> str:
    return "| " + " | ".join(markdown_text(text) if escape else text for text in texts) + " |"
