"""Source code as its interface: signatures and first docstring lines, the bodies that matter to the query."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ..tokens import TokenCounter
from .base import Rendition
from .headtail import HeadTail
from .lines import select_rows, split_lines
from .marker import left_out, short_reference
from .python_source import Body, PythonSource, parse_python
from .ranking import Ranker, default_ranker, relevance
from .terms import query_terms

__all__ = ["Code"]

_DECLARES = re.compile(
    r"\s{0,8}(?:(?:export|public|private|protected|static|abstract|final|async|pub(?:\([a-z]+\))?|default|inline|"
    r"virtual|extern|unsafe|override)\s+)*(?:class|def|function|func|fn|interface|struct|enum|trait|impl|type|"
    r"module|namespace|package|import|from|use|using|#include|#define|@\w+|const\s+\w+\s*=\s*(?:async\s*)?\()"
    r"|[A-Za-z_][\w:<>*&\s,]*\([^;]*\)\s*(?:const\s*)?\{\s*$"
)
_DEFINES = re.compile(r"^(?:(?:async )?def|class) [^_]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Code:
    """Shortens source code to what a caller of it needs.

    Python (up to 2 MB) stays valid Python: function bodies go first, those with least bearing on the query,
    then class bodies, then whole statements; definitions keep decorators, signature and first docstring
    line. Of other languages, lines are selected: declarations, and matches of the query.
    """

    ranker: Ranker = field(default_factory=default_ranker)
    fallback: HeadTail = field(default_factory=HeadTail)

    @property
    def configuration(self) -> str:
        return f"code/1(ranker={self.ranker.configuration},fallback={self.fallback.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "code", "code")
        source = parse_python(text)
        if source is None:
            shortened = self._select_lines(text, query, target_tokens, counter)
        else:
            shortened = self._shorten_python(text, source, query, target_tokens, counter)
        if shortened is None:
            return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)
        return Rendition(shortened, "code", "code")

    def _shorten_python(
        self, text: str, source: PythonSource, query: str, target_tokens: int, counter: TokenCounter
    ) -> str:
        for bodies in (source.function_bodies(), source.definition_bodies()):
            shortest = _marked(text, source.elided(bodies))
            slack = target_tokens - counter.count(shortest)
            if slack >= 0:
                elided = self._least_relevant(bodies, query, slack, counter)
                fuller = _marked(text, source.elided(elided))
                return fuller if elided and counter.count(fuller) <= target_tokens else shortest
        smallest = f"# {left_out(len(text), short_reference(text))}"
        interface = parse_python(source.elided(source.definition_bodies()))
        rows = interface.statements() if interface else []
        public = [index for index, row in enumerate(rows) if _DEFINES.search(row)]
        order = [*self._matches(rows, query), *public, *range(len(rows))]
        selected = select_rows(
            text, rows, order, target_tokens, counter, unit="statements", mark="# {}".format
        )
        return selected or min(smallest, text, key=counter.count)

    def _least_relevant(
        self, bodies: list[Body], query: str, slack: int, counter: TokenCounter
    ) -> list[Body]:
        """The bodies left to elide when the best matches are kept within the slack."""
        elided = dict.fromkeys(bodies)
        for index in self._matches([body.source for body in bodies], query):
            cost = counter.count(bodies[index].source) - counter.count(bodies[index].summary)
            if cost <= slack:
                slack -= cost
                del elided[bodies[index]]
        return list(elided)

    def _select_lines(self, text: str, query: str, target_tokens: int, counter: TokenCounter) -> str | None:
        lines = split_lines(text)
        matches = self._matches(lines, query)
        declared = [index for index, line in enumerate(lines) if _DECLARES.match(line[:300])]
        order = (*matches[:5], *declared, *matches[5:], *range(len(lines)))
        mark = "# {}" if text.startswith("#!") or "\n# " in text else "// {}"
        return select_rows(text, lines, order, target_tokens, counter, unit="lines", mark=mark.format)

    def _matches(self, rows: list[str], query: str) -> list[int]:
        """The rows that share a term with the query, best first."""
        scores = relevance(self.ranker, rows, query_terms(query))
        return sorted((i for i in range(len(rows)) if scores[i] > 0), key=lambda i: -scores[i])


def _marked(text: str, shortened: str) -> str:
    end = "" if shortened.endswith(("\n", "\r")) or not shortened else "\n"
    marker = left_out(max(len(text) - len(shortened), 1), short_reference(text))
    return f"{shortened}{end}# {marker}\n"
