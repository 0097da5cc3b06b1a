"""Source code as its interface: signatures and first docstring lines, the bodies that matter to the query."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..tokens import TokenCounter
from .base import Rendition
from .brace_source import Block, BraceSource, parse_braces
from .headtail import HeadTail
from .lines import select_rows, split_lines
from .marker import left_out, short_reference
from .named_source import defined_spans, named_in, spelled
from .python_source import Definition, PythonSource, parse_python
from .ranking import Ranker, default_ranker
from .rows import row_scores
from .terms import query_terms

__all__ = ["Code"]

_DECLARES = re.compile(
    r"\s{0,8}(?:(?:export|public|private|protected|static|abstract|final|async|pub(?:\([a-z]+\))?|default|inline|"
    r"virtual|extern|unsafe|override)\s+)*(?:class|def|function|func|fn|interface|struct|enum|trait|impl|type|"
    r"module|namespace|package|sub|defp|defmodule|resource|data|variable|create|CREATE|import|from|use|using|#include|#define|@\w+|const\s+\w+\s*=\s*(?:async\s*)?\()"
    r"|\s{0,8}(?!return\b|if\b|for\b|while\b|switch\b|else\b)[A-Za-z_][\w:<>*&~\s,.@\[\]]*"
    r"\([^;]*\)[\w\s,:<>.]*(?:\{.*)?$"
    r"|[\w']+ +:: |[\w.-]+:\s*$"
)
_DEFINES = re.compile(r"^(?:(?:async )?def|class) [^_]", re.MULTILINE)
_DEFINED_NAME = re.compile(r"^[ \t]*(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)", re.MULTILINE)
_DASHES = re.compile(r"^(?:CREATE|create|SELECT|select|INSERT|insert|[\w']+ ::|-- )", re.MULTILINE)
_HASHES = re.compile(r"^[ \t]*(?:end|fi|done)[ \t]*$|^[\w.-]+:[ \t]*$", re.MULTILINE)

_MAX_MISSES = 50
_MAX_SHOWN = 8  # definitions with their bodies
_GAPS_TOKENS = 40  # that the markers around one definition may take
_PYTHON_STATEMENT = re.compile(r"^(?:import \w|from [\w.]+ import |print\(|if __name__ ==)", re.MULTILINE)
_PYTHON_DEFINITION = re.compile(
    r"(?:^|\r)[ \t]*(?:(?:async[ \t]+)?def[ \t]+\w|class[ \t]+\w[^{}\r\n]*:)", re.MULTILINE
)
_OTHER_LINE_END = re.compile(r"[;{][ \t]*\r?$", re.MULTILINE)
_SAMPLE_CHARACTERS = 32_768
_MAX_SOUGHT_CHARACTERS = 200_000  # one search holds up every thread


class _Structure(Protocol):
    """A source and its bodies, each with its `source` and what may stand for it, the `summary`."""

    def elided(self, bodies: Any) -> str: ...


@dataclass(frozen=True, slots=True)
class Code:
    """Shortens source code to what a caller of it needs.

    What the query names is shown with its body, before all else. Of the others function bodies go first,
    those with least bearing on the query, then the bodies of classes and other blocks, then whole statements
    or lines, those far from what was named first; Python's definitions keep decorators, signature and first
    docstring line, and valid Python stays valid Python.
    """

    ranker: Ranker = field(default_factory=default_ranker)
    fallback: HeadTail = field(default_factory=HeadTail)

    @property
    def configuration(self) -> str:
        return f"code/3(ranker={self.ranker.configuration},fallback={self.fallback.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "code", "code")
        python = parse_python(text) if _PYTHON_DEFINITION.search(text, 0, _MAX_SOUGHT_CHARACTERS) else None
        if python is None or not python.definitions:
            python = parse_python(text) if _has_python_statements(text) else None
        mark = "# {}" if python is not None else _comment(text)
        if python is not None:
            shown = _named_definitions(python, query)
            bodies = (python.function_bodies(shown), python.definition_bodies(shown))
            shortened = self._elide(text, python, bodies, mark, query, target_tokens, counter)
            if shortened is None:
                shortened = self._select_statements(text, python, shown, query, target_tokens, counter)
        else:
            source = parse_braces(text)
            spans = defined_spans(text, query)
            blocks = (source.function_bodies(spans), source.definition_bodies(spans))
            shortened = self._elide(text, source, blocks, mark, query, target_tokens, counter)
            if shortened is None:
                shortened = self._select_lines(text, source, spans, mark, query, target_tokens, counter)
        if shortened is None:
            return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, "code", "code")

    def _elide(
        self,
        text: str,
        source: _Structure,
        levels: Sequence[Sequence[Any]],
        mark: str,
        query: str,
        target_tokens: int,
        counter: TokenCounter,
    ) -> str | None:
        """The interface with the bodies that matter most; None where not even the interface fits.

        `levels` are the bodies to elide, those of the first if that is enough.
        """
        for bodies in levels:
            shortest = _marked(text, source.elided(bodies), mark)
            slack = target_tokens - counter.count(shortest)
            if slack >= 0:
                elided = self._least_relevant(bodies, query, slack, counter)
                fuller = _marked(text, source.elided(elided), mark)
                return fuller if elided and counter.count(fuller) <= target_tokens else shortest
        return None

    def _least_relevant(
        self, bodies: Sequence[Any], query: str, slack: int, counter: TokenCounter
    ) -> list[Any]:
        """The bodies left to elide when the best matches are kept within the slack."""
        elided = dict(enumerate(bodies))
        misses = 0
        for index in self._matches([body.source for body in bodies], query):
            cost = counter.count(bodies[index].source) - counter.count(bodies[index].summary)
            if cost <= slack:
                slack -= cost
                del elided[index]
            else:
                misses += 1
            if misses > _MAX_MISSES or slack <= 0:
                break
        return list(elided.values())

    def _select_statements(
        self,
        text: str,
        source: PythonSource,
        shown: Sequence[Definition],
        query: str,
        target_tokens: int,
        counter: TokenCounter,
    ) -> str:
        smallest = f"# {left_out(len(text), short_reference(text))}"
        rows = parse_python(source.elided(source.definition_bodies(shown))).statements()
        names = {definition.name for definition in shown}
        named = [i for i, row in enumerate(rows) if names.intersection(_DEFINED_NAME.findall(row))]
        room = target_tokens - counter.count(smallest) - _GAPS_TOKENS
        for index in named:
            row = parse_python(rows[index])
            if counter.count(rows[index]) > room and row.definitions and row.definitions[0].name in names:
                opening = row.opening(lambda beginning: counter.count(beginning) <= room)
                rows[index] = opening or rows[index]
        public = [index for index, row in enumerate(rows) if _DEFINES.search(row)]
        order = [*named, *self._matches(rows, query), *public, *range(len(rows))]
        if named:
            order = [*named, *_nearest(public, named), *order]
        selected = select_rows(
            text, rows, order, target_tokens, counter, unit="statements", mark="# {}".format
        )
        return selected or min(smallest, text, key=counter.count)

    def _select_lines(
        self,
        text: str,
        source: BraceSource,
        spans: Sequence[tuple[int, int]],
        mark: str,
        query: str,
        target_tokens: int,
        counter: TokenCounter,
    ) -> str | None:
        """The lines of the interface that matter: what the query names, matches of it, declarations, and what
        else fits."""
        bodies = source.function_bodies(spans)
        elided = source.elided(bodies)
        lines = split_lines(elided)
        named = [line for span in spans for line in _lines_of(elided, bodies, span)]
        matches = self._matches(lines, query)
        declared = [index for index, line in enumerate(lines) if _DECLARES.match(line[:300])]
        order = [*matches[:5], *declared, *matches[5:], *range(len(lines))]
        if named:
            order = [*named, *_nearest(declared, named), *order]
        return select_rows(text, lines, order, target_tokens, counter, unit="lines", mark=mark.format)

    def _matches(self, rows: Sequence[str], query: str) -> list[int]:
        """The rows that share a term with the query, best first."""
        scores = row_scores(self.ranker, rows, query_terms(query))
        return sorted((i for i in range(len(rows)) if scores[i] > 0), key=lambda i: -scores[i])


def _named_definitions(source: PythonSource, query: str) -> list[Definition]:
    """The definitions that the query names; by words of plain language only where no other name is one."""
    for names in named_in(query):
        wanted = set(map(spelled, names))
        if found := [one for one in source.definitions if spelled(one.name) in wanted]:
            return found[:_MAX_SHOWN]
    return []


def _lines_of(elided: str, bodies: Sequence[Block], span: tuple[int, int]) -> range:
    """The lines that a span of the source has become."""
    saved = sum(len(body.source) - len(body.summary) for body in bodies if body.end <= span[0])
    saved_within = sum(
        len(body.source) - len(body.summary) for body in bodies if span[0] < body.end <= span[1]
    )
    start, end = span[0] - saved, span[1] - saved - saved_within
    first = elided.count("\n", 0, start)
    return range(first, first + elided[start:end].rstrip("\n").count("\n") + 1)


def _nearest(indices: Sequence[int], named: Sequence[int]) -> list[int]:
    return sorted(indices, key=lambda index: abs(index - named[0]))


def _comment(text: str) -> str:
    """A comment in the text's language, from what it is like."""
    if text.startswith("#!") or "\n# " in text:
        return "# {}"
    if _DASHES.search(text, 0, _MAX_SOUGHT_CHARACTERS):
        return "-- {}"
    return "# {}" if _HASHES.search(text, 0, _MAX_SOUGHT_CHARACTERS) else "// {}"


def _has_python_statements(text: str) -> bool:
    sample = text[:_SAMPLE_CHARACTERS]
    return _PYTHON_STATEMENT.search(sample) is not None and _OTHER_LINE_END.search(sample) is None


def _marked(text: str, shortened: str, mark: str) -> str:
    end = "" if shortened.endswith(("\n", "\r")) or not shortened else "\n"
    marker = left_out(max(len(text) - len(shortened), 1), short_reference(text))
    return f"{shortened}{end}{mark.format(marker)}\n"
