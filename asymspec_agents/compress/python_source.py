"""Python source as its interface: bodies elided, signatures and the first line of each docstring kept.

What is valid Python stays valid Python.
"""

from __future__ import annotations

import ast
import re
import threading
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass

__all__ = ["Body", "PythonSource", "parse_python"]

_MAX_CHARACTERS = 2_000_000
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")  # what the parser counts as a line
_parsing = threading.Lock()

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Body:
    """The lines (from 1, both inclusive) of one definition's body, and what may stand for them."""

    first_line: int
    last_line: int
    source: str
    summary: str


@dataclass(frozen=True, slots=True)
class PythonSource:
    """A parsed module and its lines, ends included."""

    tree: ast.Module
    lines: tuple[str, ...]

    def function_bodies(self) -> list[Body]:
        """The bodies of functions and methods, outermost ones only, in order."""
        return list(self._bodies((ast.FunctionDef, ast.AsyncFunctionDef)))

    def definition_bodies(self) -> list[Body]:
        """The bodies of functions and classes, outermost ones only, in order."""
        return list(self._bodies((ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)))

    def elided(self, bodies: Collection[Body]) -> str:
        """The source with each of the bodies (in order) replaced by its summary."""
        written: list[str] = []
        next_line = 1
        for body in bodies:
            written += self.lines[next_line - 1 : body.first_line - 1]
            written.append(body.summary)
            next_line = body.last_line + 1
        return "".join([*written, *self.lines[next_line - 1 :]])

    def statements(self) -> list[str]:
        """The module's statements, each with what stands between it and the one before, unended."""
        ends = sorted({node.end_lineno or node.lineno for node in self.tree.body} | {len(self.lines)})
        starts = [0, *ends[:-1]]
        return ["".join(self.lines[a:b]).rstrip("\r\n") for a, b in zip(starts, ends, strict=True)]

    def _bodies(self, kinds: tuple[type[_Definition], ...]) -> Iterator[Body]:
        pending: list[ast.AST] = list(reversed(self.tree.body))
        while pending:
            node = pending.pop()
            if isinstance(node, kinds):
                body = self._body(node)
                if body is not None:
                    yield body
            else:
                # Handlers and match cases hold statements but are none themselves.
                inner = (ast.stmt, ast.excepthandler, ast.match_case)
                pending.extend(reversed([n for n in ast.iter_child_nodes(node) if isinstance(n, inner)]))

    def _body(self, node: _Definition) -> Body | None:
        """The body, or None where it stands on its signature's line or a summary would not be shorter."""
        first, last_line = node.body[0], node.body[-1].end_lineno or 0
        first_line = min([first.lineno, *(mark.lineno for mark in getattr(first, "decorator_list", ()))])
        indent = self.lines[first_line - 1][: first.col_offset]
        source = "".join(self.lines[first_line - 1 : last_line])
        if indent.strip(" \t\f"):
            return None
        summary = f"{indent}...\n"
        docstring = ast.get_docstring(node) or ""
        if docstring.strip():
            summary = f"{indent}{_quoted(docstring.strip().splitlines()[0])}\n{summary}"
        return Body(first_line, last_line, source, summary) if len(summary) < len(source) else None


def _quoted(line: str) -> str:
    is_plain = line.isprintable() and "\\" not in line and '"""' not in line and not line.endswith('"')
    return f'"""{line}"""' if is_plain else repr(line)


def parse_python(text: str) -> PythonSource | None:
    """The parsed text; None where it is not Python, or too long to parse at once (over 2 MB)."""
    if len(text) > _MAX_CHARACTERS:
        return None
    try:
        # The compiler warns of odd escapes in other people's code; its filter is global, hence the lock.
        with _parsing, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return PythonSource(tree, tuple(_LINE.findall(text)))
