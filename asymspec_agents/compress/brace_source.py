"""Source in languages with braces (C and its kin, Java, JavaScript, TypeScript, Go, Rust, C#, PHP, Kotlin, …)
as its interface: the bodies of functions elided, or those of all blocks.

Strings and comments are skipped as these languages have them in common. Where a language differs (a regular
expression that holds a lone quote), a line is misread at most, as plain strings end with their line.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Collection, Iterator
from dataclasses import dataclass

__all__ = ["Block", "BraceSource", "parse_braces"]

_TOKEN = re.compile(
    r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"?'
    r"|'(?:[^'\\\n]|\\.){0,400}'"  # not closed on its line: an apostrophe, a lifetime
    r"|`[^`\\]*(?:\\.[^`\\]*)*(?:`|\\?\Z)"
    r"|//[^\n]*|/\*[^*]*(?:\*(?!/)[^*]*)*(?:\*/|\Z)|[{}]",
    re.DOTALL,
)
_LINE_END = re.compile("\n")
_HOLDS_DECLARATIONS = re.compile(
    r"\b(?:class|struct|interface|namespace|module|mod|impl|trait|enum|union|object|protocol|extension|extern|"
    r"package|record|contract)\b"
)
_MAX_HEADER_CHARS = 300


@dataclass(frozen=True, slots=True)
class Block:
    """What stands between a pair of braces on different lines, `text[start:end]`, and what may replace it."""

    text: str
    start: int
    end: int
    summary: str
    is_function: bool

    @property
    def source(self) -> str:
        return self.text[self.start : self.end]


@dataclass(frozen=True, slots=True)
class BraceSource:
    """A text and its blocks in the order of their beginnings, inner ones among them."""

    text: str
    blocks: tuple[Block, ...]

    def function_bodies(self, shown: Collection[tuple[int, int]] = ()) -> list[Block]:
        """The bodies of functions, outermost ones only, in order, without those in the spans to be shown."""
        blocks = (block for block in self.blocks if block.is_function)
        return list(_outermost(blocks, shown))

    def definition_bodies(self, shown: Collection[tuple[int, int]] = ()) -> list[Block]:
        """The outermost blocks, in order, without those in the spans to be shown or around them."""
        return list(_outermost(self.blocks, shown))

    def elided(self, bodies: Collection[Block]) -> str:
        """The source with each of the blocks (in order) replaced by its summary."""
        written: list[str] = []
        at = 0
        for block in bodies:
            written += (self.text[at : block.start], block.summary)
            at = block.end
        return "".join([*written, self.text[at:]])


def _outermost(
    blocks: Iterator[Block] | tuple[Block, ...], shown: Collection[tuple[int, int]]
) -> Iterator[Block]:
    end = -1
    for block in blocks:
        if block.start >= end and not any(block.start < last and first < block.end for first, last in shown):
            end = block.end
            yield block


def parse_braces(text: str) -> BraceSource:
    """The text's structure: none where its braces do not pair up."""
    found: list[Block] = []
    opened: list[tuple[int, bool]] = []
    line_ends = [match.start() for match in _LINE_END.finditer(text)]
    after = 0  # where the last statement or block ended, roughly
    for match in _TOKEN.finditer(text):
        at = match.start()
        mark = text[at]
        if mark == "{":
            header = text[max(after, at - _MAX_HEADER_CHARS) : at]
            header = header[header.rfind(";") + 1 :]
            is_function = "(" in header and _HOLDS_DECLARATIONS.search(header.split("(")[0]) is None
            opened.append((at + 1, is_function))
            after = at + 1
        elif mark == "}":
            after = at + 1
            if opened:
                start, is_function = opened.pop()
                num_lines = bisect_left(line_ends, at) - bisect_left(line_ends, start) - 1
                summary = f" /* … {num_lines:,} lines … */ "
                if num_lines > 1 and len(summary) < at - start:
                    found.append(Block(text, start, at, summary, is_function))
    return BraceSource(text, tuple(sorted(found, key=lambda block: block.start)))
