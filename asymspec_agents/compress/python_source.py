"""Python source as its interface: bodies elided, signatures and the first line of each docstring kept.

The structure is read from what Python itself goes by: logical lines and their indentation, with strings,
comments and brackets skipped. So code that does not parse (cut off, of another version) is shortened too, and
what is valid Python stays valid Python.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Body", "Definition", "PythonSource", "parse_python"]

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
# Strings reach to their end whatever they hold; one that is never closed, to the text's or the line's end.
_TOKEN = re.compile(
    r'"""(?:[^"\\]+|\\.|"(?!""))*(?:"""|\\?\Z)'
    r"|'''(?:[^'\\]+|\\.|'(?!''))*(?:'''|\\?\Z)"
    r'|"[^"\\\r\n]*(?:\\(?:\r\n|.)[^"\\\r\n]*)*"?'
    r"|'[^'\\\r\n]*(?:\\(?:\r\n|.)[^'\\\r\n]*)*'?"
    r"|\#[^\r\n]*|[(\[{]|[)\]}]|\\\r?\n",
    re.DOTALL,
)
_DEFINITION = re.compile(r"([ \t\f]*)(?:(?:async[ \t]+)?def|class)[ \t]+(\w+)")
_INDENT = re.compile(r"[ \t\f]*")
_HEADER = re.compile(r":[ \t]*(?:#[^\r\n]*)?(?:\r\n|\r|\n)\Z")
_DOCSTRING = re.compile(r'\s*[rRuU]?("""|\'\'\'|"|\')')
_MAX_SUMMARY_CHARS = 300


@dataclass(frozen=True, slots=True)
class Body:
    """The lines (from 1, both inclusive) of one definition's body, and what may stand for them."""

    first_line: int
    last_line: int
    source: str
    summary: str


@dataclass(frozen=True, slots=True)
class Definition:
    """A definition's first body line and its last line, from 0."""

    name: str
    is_class: bool
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class PythonSource:
    """A module's lines, ends included, the first ones of its logical lines, and its definitions."""

    lines: tuple[str, ...]
    logical: tuple[int, ...]
    definitions: tuple[Definition, ...]

    def function_bodies(self, shown: Collection[Definition] = ()) -> list[Body]:
        """The bodies of functions and methods, outermost ones only, in order, without those to be shown."""
        return list(self._bodies(shown, of_classes=False))

    def definition_bodies(self, shown: Collection[Definition] = ()) -> list[Body]:
        """The bodies of functions and classes, outermost ones only, in order, without what holds one to be
        shown."""
        return list(self._bodies(shown, of_classes=True))

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
        starts = [line for line in self.logical if not self.lines[line][0].isspace()]
        starts = [line for line in starts if not _continues(self.lines[line])]
        decorated = [self.lines[line].startswith("@") for line in starts]
        firsts = [line for index, line in enumerate(starts) if index == 0 or not decorated[index - 1]]
        bounds = [0, *firsts[1:], len(self.lines)]
        return ["".join(self.lines[a:b]).rstrip("\r\n") for a, b in pairwise(bounds)]

    def opening(self, fits: Callable[[str], bool]) -> str | None:
        """The first definition as far as it fits, cut between two statements of its body; None where not even
        one of them does."""
        definition = self.definitions[0]
        places = [line for line in self.logical if definition.first_line <= line <= definition.last_line]
        width = _width(self.lines[places[0]])
        cuts = [
            line
            for above, line in pairwise(places)
            if _width(self.lines[line]) == width
            and not _continues(self.lines[line].lstrip())
            and not self.lines[above].lstrip().startswith("@")
        ]
        indent = _indent(self.lines[places[0]])

        def cut(number: int) -> str:
            return "".join(self.lines[: cuts[number]]) + f"{indent}..."

        number = bisect_left(range(len(cuts)), True, key=lambda index: not fits(cut(index)))
        return cut(number - 1) if number else None

    def _bodies(self, shown: Collection[Definition], *, of_classes: bool) -> Iterator[Body]:
        end = -1
        for definition in self.definitions:
            if definition.first_line <= end:
                continue
            if definition in shown and not definition.is_class:
                end = definition.last_line
            elif any(definition.first_line <= one.first_line <= definition.last_line for one in shown):
                continue
            elif of_classes or not definition.is_class:
                end = definition.last_line
                body = self._body(definition)
                if body is not None:
                    yield body

    def _body(self, definition: Definition) -> Body | None:
        """The body, or None where a summary would not be shorter."""
        source = "".join(self.lines[definition.first_line : definition.last_line + 1])
        first = self.logical[bisect_right(self.logical, definition.first_line - 1)]
        indent = _indent(self.lines[first])
        summary = f"{indent}...\n"
        docstring = _first_docstring_line("".join(self.lines[first : definition.last_line + 1][:8]))
        if docstring:
            summary = f"{indent}{docstring}\n{summary}"
        if len(summary) >= len(source):
            return None
        return Body(definition.first_line + 1, definition.last_line + 1, source, summary)


def _continues(line: str) -> bool:
    return line.startswith(("else", "elif", "except", "finally", "case ")) and ":" in line


def _indent(line: str) -> str:
    match = _INDENT.match(line)
    return match.group() if match else ""


def _width(line: str) -> int:
    return len(_indent(line).replace("\f", "").expandtabs(8))


def _first_docstring_line(source: str) -> str:
    """The first line of a docstring as one of its own, as written; nothing where it cannot stand alone."""
    match = _DOCSTRING.match(source)
    if match is None:
        return ""
    quotes, opening = match.group(1), match.group().lstrip()
    rest = source[match.end() : match.end() + _MAX_SUMMARY_CHARS]
    text = rest.lstrip().splitlines()[0] if rest.strip() else ""
    text = text.split(quotes)[0].rstrip()
    is_plain = text and not text.endswith(("\\", quotes[0])) and text.isprintable()
    return f"{opening}{text}{quotes}" if is_plain else ""


def parse_python(text: str) -> PythonSource:
    """The text's structure; of what is no Python, none in particular."""
    lines = tuple(_LINE.findall(text))
    inner = _inner_lines(text, lines)
    logical = tuple(
        index
        for index, line in enumerate(lines)
        if index not in inner and (stripped := line.strip()) and stripped[0] != "#"
    )
    return PythonSource(lines, logical, tuple(_definitions(lines, logical)))


def _inner_lines(text: str, lines: tuple[str, ...]) -> set[int]:
    """The lines that begin inside a string or brackets or after a backslash."""
    starts: list[int] = []
    at = 0
    for line in lines:
        starts.append(at)
        at += len(line)
    inner: set[int] = set()

    def add(start: int, end: int) -> None:
        first, last = bisect_right(starts, start), bisect_right(starts, end - 1)
        if last > first:
            inner.update(range(first, last))

    depth = opened = 0
    for match in _TOKEN.finditer(text):
        start = match.start()
        mark = text[start]
        if mark in "([{":
            if depth == 0:
                opened = start
            depth += 1
        elif mark in ")]}":
            depth -= 1
            if depth == 0:
                add(opened, start + 1)
            depth = max(depth, 0)
        elif mark == "\\":
            add(start, match.end() + 1)
        elif mark != "#" and depth == 0 and match.end() - start > 2:
            add(start, match.end())
    return inner


def _definitions(lines: tuple[str, ...], logical: tuple[int, ...]) -> Iterator[Definition]:
    """The definitions with a body on lines of its own, in order."""
    widths = [_width(lines[line]) for line in logical]
    # For each logical line, the next one that is indented no more: a stack of lines still waiting for it.
    ends = [len(logical)] * len(logical)
    waiting: list[int] = []
    for place, width in enumerate(widths):
        while waiting and widths[waiting[-1]] >= width:
            ends[waiting.pop()] = place
        waiting.append(place)
    for place, line in enumerate(logical):
        match = _DEFINITION.match(lines[line])
        if match is None or place + 1 >= ends[place]:
            continue
        first, last = logical[place + 1], logical[ends[place]] - 1 if ends[place] < len(logical) else -1
        header_end = first - 1
        while header_end > line and not lines[header_end].strip(" \t\f\r\n").split("#")[0]:
            header_end -= 1
        if not _HEADER.search(lines[header_end]):
            continue
        if last < 0:
            last = len(lines) - 1
        is_class = lines[line].lstrip().startswith("class")
        yield Definition(
            match.group(2), is_class, header_end + 1, _without_trailing(lines, last, widths[place])
        )


def _without_trailing(lines: tuple[str, ...], last: int, width: int) -> int:
    """The last line of a body, without blank lines and comments that belong to what follows."""
    while not (stripped := lines[last].strip()) or (stripped[0] == "#" and _width(lines[last]) <= width):
        last -= 1
    return last
