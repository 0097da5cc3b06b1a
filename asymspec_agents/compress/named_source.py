"""The definitions that a query names, and where they stand in source of any language.

A name is sought in every spelling (`compute_tax_total`, `computeTaxTotal`), and a definition told by the
words around it; how far it reaches, by indentation, which nearly all source has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from .terms import query_terms

__all__ = ["defined_spans", "named_in", "spelled"]

_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")
_LOOKS_LIKE_ONE = re.compile(r"\w_\w|[a-z][A-Z]|[A-Za-z][0-9]|^_+\w")
_ANNOUNCED = re.compile(
    r"(?:\b(?:function|method|class|def|struct|type|trait|interface|enum|table|view|procedure|resource|module|"
    r"macro|key|service|section|variable|constant)\s+|`)$",
    re.I,
)
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_INTRODUCES = re.compile(
    r"(?:^|\s)(?:def|defp|defmodule|defmacro|class|func|fun|fn|function|sub|struct|enum|union|interface|trait|type|"
    r"impl|module|object|record|protocol|namespace|package|macro_rules!|data|newtype|const|let|var|val|static|"
    r"typedef|#define|table|view|procedure|index|trigger)\s*(?:\([^()]{0,80}\)\s*)?(?:if not exists\s+)?"
    r"(?:[\w$]+[.:]{1,2})*[\"`']?$",
    re.I,
)
_CALLED_BEFORE = re.compile(
    r"[=(.,+\-/!&|?]|\b(?:return|if|while|for|await|yield|new|throw|case|assert|and|or|not)\b"
)
_BODY_FOLLOWS = re.compile(r"[^;]*(?:\{|\bdo|[:,(=]|\)|\bthen)\s*(?:\{.*)?(?://.*|#.*)?$|.*\{")
_ASSIGNED = re.compile(r"""['"]?\s*(?:\([^()]*\)\s*)?(?:::|:=|:|=(?!=))(?:\s|$)""")
_EQUATION = re.compile(r"(?: [\w'()]+)+ (?:=|\|)(?:\s|$)")
_PLAIN_BEFORE = re.compile(
    r"""(?:(?:export|default|public|private|protected|static|final|readonly|async|- )\s*)*['"]?$"""
)
_BLOCK_LABEL = re.compile(r'"[^"]*"\s*\{\s*$|"\s*\{\s*$')
_CLOSES = re.compile(r"[}\])]|end\b|\$\$|\{|begin\b|as\b|is\b|where\b|\|", re.I)
_ENDS = re.compile(r"\}|end\b|\$\$", re.I)
_ABOVE = re.compile(r"@|#|//|/\*|\*|--|\"\"\"")
_MAX_OCCURRENCES = 300
_MAX_NAMES = 12
_MAX_ABOVE = 10
_MAX_CHARACTERS = 400  # of a line, on each side of a name
_MAX_QUERY_CHARACTERS = 40_000


def spelled(name: str) -> str:
    """What all spellings of a name have in common."""
    return name.replace("_", "").replace("$", "").casefold()


def named_in(query: str) -> tuple[list[str], list[str]]:
    """The names in a query that can only be those of code, and the other words that may be."""
    sure: dict[str, None] = {}
    words: dict[str, None] = {}
    wanted = set(query_terms(query))
    query = query[-_MAX_QUERY_CHARACTERS:]
    for match in _IDENTIFIER.finditer(query):
        name = match.group()
        before, after = (
            query[max(match.start() - 20, 0) : match.start()],
            query[match.end() : match.end() + 2],
        )
        if len(name) < 2:
            continue
        if _LOOKS_LIKE_ONE.search(name) or after.startswith(("(", "`")) or _ANNOUNCED.search(before):
            sure[name] = None
        elif len(name) > 2 and wanted.intersection(query_terms(name)):
            words[name] = None
    return list(sure)[:_MAX_NAMES], list(words)[:_MAX_NAMES]


def defined_spans(text: str, query: str) -> list[tuple[int, int]]:
    """The spans of whole lines, in order and apart, of the definitions that the query names."""
    sure, words = named_in(query)
    lines = text.split("\n")
    starts = [0, *accumulate(len(line) + 1 for line in lines)]
    folded = _folded(text)  # to leave names that stand nowhere before a search by pattern, which is slow
    for names in (sure, words):
        present = [name for name in names if all(part.casefold() in folded for part in _PART.findall(name))]
        found = sorted({line for name in present for line in _defined_at(text, lines, starts, name)})
        spans: list[tuple[int, int]] = []
        for line in found:
            first, end = _extent(lines, line)
            span = (starts[first], min(starts[end], len(text)))
            if spans and span[0] < spans[-1][1]:
                span = (spans[-1][0], max(spans.pop()[1], span[1]))
            spans.append(span)
        if spans:
            return spans
    return []


def _folded(text: str) -> str:
    """The text with every character that a pattern takes for an ASCII letter, whatever its case, as that."""
    return text.replace("\u0130", "i").replace("\u0131", "i").casefold()  # Turkish i: folding gives others


def _defined_at(text: str, lines: Sequence[str], starts: Sequence[int], name: str) -> Iterator[int]:
    parts = _PART.findall(name)
    if not parts:
        return
    pattern = re.compile(r"(?<![A-Za-z0-9_$])_*" + "_?".join(parts) + r"_*(?![A-Za-z0-9_$])", re.I)
    line = 0
    for num, match in enumerate(pattern.finditer(text)):
        if num >= _MAX_OCCURRENCES:
            return
        while starts[line + 1] <= match.start():
            line += 1
        at = match.start() - starts[line]
        before = lines[line][:at].lstrip()[-_MAX_CHARACTERS:]
        after = lines[line].rstrip()[at + len(match.group()) :][:_MAX_CHARACTERS]
        if _defines(before, after):
            yield line


def _defines(before: str, after: str) -> bool:
    if before.startswith(("//", "#!", "# ", "*", "--", "/*")):
        return False
    if _INTRODUCES.search(before):
        return True
    if after.startswith(("(", "<")) and not _CALLED_BEFORE.search(before):
        return _BODY_FOLLOWS.match(after) is not None
    if _PLAIN_BEFORE.fullmatch(before) and _ASSIGNED.match(after):
        return True
    if not before and _EQUATION.match(after):
        return True
    return before.endswith('"') and _BLOCK_LABEL.match(after) is not None and "=" not in before


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _extent(lines: Sequence[str], line: int) -> tuple[int, int]:
    """The first line of a definition with what is said above it, and the line after its last."""
    indent = _indent(lines[line])
    first = line
    while first > max(line - _MAX_ABOVE, 0):
        above = lines[first - 1]
        if _indent(above) != indent or not _ABOVE.match(above.strip()):
            break
        first -= 1
    end = line + 1
    while end < len(lines):
        stripped = lines[end].strip()
        if stripped and _indent(lines[end]) <= indent:
            if _indent(lines[end]) < indent or not _CLOSES.match(stripped):
                break
            if _ENDS.match(stripped):
                end += 1
                break
        end += 1
    while end > line + 1 and not lines[end - 1].strip():
        end -= 1
    return first, end
