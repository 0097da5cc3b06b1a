"""Markdown: headings kept above what is kept, fences and tables by their own kind, prose by relevance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ..tokens import TokenCounter
from .base import Compressor, Rendition
from .lines import select_rows
from .ranking import Ranker
from .rows import keeping_order, row_scores
from .terms import query_terms

__all__ = ["Block", "Markdown", "blocks"]

_HEADING = re.compile(r"#{1,6}[ \t]")
_FENCE = re.compile(r"[ \t]{0,3}(`{3,}|~{3,})")
_TABLE_ROW = re.compile(r"[ \t]{0,3}\|")
_MAX_PARAGRAPH = 1_200
_LARGE_SHARE = 4  # a fence or table of more than one part in so many of the target is shortened by itself
_MIN_INNER_TOKENS = 60

BlockKind = Literal["heading", "fence", "table", "text"]


@dataclass(frozen=True, slots=True)
class Block:
    """One block as it stands, blank lines after it included; `heading` is the row of the one above it."""

    kind: BlockKind
    text: str
    heading: int


def blocks(text: str) -> list[Block]:
    """The blocks of a Markdown text; joined by line feeds they are the text again."""
    found: list[Block] = []
    lines: list[str] = []
    kind: BlockKind = "text"
    heading = -1
    fence = ""
    size = 0

    def close() -> None:
        nonlocal lines, size, heading
        if lines:
            found.append(Block(kind, "\n".join(lines), heading))
            if kind == "heading":
                heading = len(found) - 1
        lines, size = [], 0

    follows_blank = True
    for line in text.split("\n"):
        if fence:
            lines.append(line)
            if line.strip().startswith(fence) and not line.strip().strip(fence[0]):
                fence, follows_blank = "", True
            continue
        is_blank = not line.strip()
        if is_blank and lines:
            lines.append(line)
            follows_blank = True
            continue
        match = _FENCE.match(line)
        is_row = _TABLE_ROW.match(line) is not None
        if match:
            close()
            kind, fence = "fence", match.group(1)
        elif _HEADING.match(line):
            close()
            kind = "heading"
        elif (
            follows_blank
            or kind in ("heading", "fence")
            or (kind == "table") != is_row
            or size > _MAX_PARAGRAPH
        ):
            close()
            kind = "table" if is_row else "text"
        follows_blank = is_blank
        lines.append(line)
        size += len(line)
    close()
    return found


@dataclass(frozen=True, slots=True)
class Markdown:
    """Keeps whole blocks, each below its heading, what bears on the query first.

    `by_kind` shortens code fences (`code`) and tables (`table`) that are too long to keep; a fence stays
    closed. Text without any heading, fence or table goes to `prose`, as does what fits no block.
    """

    ranker: Ranker
    prose: Compressor
    code: Compressor
    table: Compressor

    @property
    def configuration(self) -> str:
        inner = ",".join(part.configuration for part in (self.prose, self.code, self.table))
        return f"markdown/2(ranker={self.ranker.configuration},inner={inner})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the prose compressor's smallest where that is larger."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "markdown", "markdown")
        parts = blocks(text)
        if all(part.kind == "text" for part in parts):
            return self.prose.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        rows = [part.text for part in parts]
        scores = row_scores(
            self.ranker,
            [rows[part.heading] + "\n" + part.text if part.heading >= 0 else part.text for part in parts],
            query_terms(query),
        )
        order: dict[int, None] = {}
        for index in keeping_order(len(parts), scores):
            if parts[index].heading >= 0:
                order[parts[index].heading] = None
            order[index] = None
        largest = max(target_tokens // _LARGE_SHARE, 1)
        spent = 0
        for index in order:
            if spent > 2 * target_tokens:
                break  # no further block can be kept
            rows[index] = self._within(parts[index], largest, query, counter)
            spent += counter.count(rows[index])
        rendition = select_rows(text, rows, list(order), target_tokens, counter, unit="blocks")
        if rendition is None:
            return self.prose.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(rendition, "markdown", "markdown")

    def _within(self, block: Block, largest: int, query: str, counter: TokenCounter) -> str:
        """The block, shortened by its kind where it is long."""
        if block.kind == "heading" or largest < _MIN_INNER_TOKENS or counter.count(block.text) <= largest:
            return block.text
        if block.kind == "text":
            return self.prose.compress(block.text, query=query, target_tokens=largest, counter=counter).text
        if block.kind == "table":
            return self.table.compress(
                block.text.rstrip("\n"), query=query, target_tokens=largest, counter=counter
            ).text
        opening, _, rest = block.text.partition("\n")
        body, _, closing = rest.rstrip("\n").rpartition("\n")
        made = self.code.compress(body, query=query, target_tokens=largest, counter=counter).text
        return f"{opening}\n{made.rstrip(chr(10))}\n{closing}"
