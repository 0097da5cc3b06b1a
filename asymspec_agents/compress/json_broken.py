"""What can still be read of text that is nearly JSON: cut off, broken in places, several values after
another, or a Python literal. What can't be read stays as a string that says so; nothing is dropped here."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from .json_tree import JsonObject, JsonValue, Literal, parse_piece

__all__ = ["LITERAL_START", "Mended", "mend", "mended_lines"]

LITERAL_START = re.compile(
    r"\s*(?:\{\s*(?:'|\(|-?\d+\s*:)|[\[(]\s*(?:\(\s*(?:['\"]|-?[\d.]+\s*,)|[\[{]\s*(?:'|\(|-?\d+\s*:)))"
)
_MAX_UNREAD = 0.9  # of the text: what has more is nothing like JSON
_MAX_TROUBLES = 50  # places from which reading goes on
_MAX_DEPTH = 12  # containers within one another that are read in part
_MAX_LITERAL = 100_000  # characters of one element of a Python literal that is evaluated
_BLANK = re.compile(r"[ \t\n\r]*")
_NEXT_ELEMENT = re.compile(r"[}\]][ \t\n\r]*,?[ \t\n\r]*(?=[{\[])")
_CUT_STRING = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)\\?\Z', re.DOTALL)
_CUT_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{0,3})?\Z")
_LITERAL_TOKEN = re.compile(
    r"'[^'\\\n]*(?:\\.[^'\\\n]*)*'|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"|[\[\](){},]", re.DOTALL
)
# What Python's parser would warn of.
_WARNED = re.compile(r"\\[^\\'\"abfnrtvxuUN0-7\n]|\d(?:and|else|for|if|in|is|not|or)\b")


@dataclass(frozen=True, slots=True)
class Mended:
    """The value, and what is to be said of the text it was made of."""

    value: JsonValue
    note: str


def mend(text: str) -> Mended:
    """The value of a text that `parse` refuses. Raises ValueError where nothing in it can be read."""
    if LITERAL_START.match(text):
        elements = list(_elements(text))
        literal = _object(elements) if text.lstrip()[0] == "{" else list(map(_evaluated, elements))
        items = [item for _, item in literal.pairs] if isinstance(literal, JsonObject) else literal
        sources = set(elements)
        num_unread = sum(len(item) for item in items if isinstance(item, str) and item in sources)
        if items and num_unread <= _MAX_UNREAD * len(text):
            return Mended(literal, "… the original is a Python literal, here as JSON …")
    reader = _Reader(text)
    values: list[JsonValue] = []
    value: JsonValue
    at = reader.blank(0)
    while at < len(text):
        if text[at] not in "[{":
            value, at = reader.broken(at), reader.resumed
        else:
            value, at, is_whole = reader.read(at, 0)
            if not is_whole:
                reader.troubles.append(at)
        values.append(value)
        at = reader.blank(at)
    if reader.num_unread > _MAX_UNREAD * len(text):
        raise ValueError("next to nothing that can be read")
    return Mended(values[0] if len(values) == 1 else values, reader.note())


def mended_lines(text: str) -> Mended:
    """The values of JSON lines, of which some are none."""
    values: list[JsonValue] = []
    num_broken = 0
    for line in text.split("\n"):
        line = line.strip(" \t\r")
        if not line:
            continue
        try:
            values.append(parse_piece(line))
        except ValueError:
            num_broken += 1
            values.append(_not_json(line))
    noun = "line is" if num_broken == 1 else "lines are"
    return Mended(values, f"… {num_broken:,} {noun} not valid JSON …" if num_broken else "")


def _not_json(source: str) -> str:
    return f"… not valid JSON: {source} …"


@dataclass(slots=True)
class _Reader:
    """Reads one text element by element; `troubles` are the places where that failed."""

    text: str
    troubles: list[int] = field(default_factory=list)
    resumed: int = 0
    num_unread: int = 0  # characters

    def blank(self, at: int) -> int:
        match = _BLANK.match(self.text, at)
        return match.end() if match else at

    def note(self) -> str:
        if not self.troubles:
            return "… the original is several JSON values, one after another …"
        if self.troubles[0] >= len(self.text):
            return "… the original is not valid JSON: it breaks off at its end …"
        more = f" and {len(self.troubles) - 1:,} more places" if len(self.troubles) > 1 else ""
        return f"… the original is not valid JSON: broken at character {self.troubles[0] + 1:,}{more} …"

    def broken(self, at: int) -> str:
        """The text from `at` to where the next element seems to begin, which is `resumed`."""
        self.troubles.append(at)
        following = _NEXT_ELEMENT.search(self.text, at) if len(self.troubles) < _MAX_TROUBLES else None
        self.resumed = following.end() if following else len(self.text)
        self.num_unread += self.resumed - at
        return _not_json(self.text[at : self.resumed].strip())

    def read(self, at: int, depth: int) -> tuple[JsonValue, int, bool]:
        """The value that begins at `at`, where it ends, and whether it was read to its end."""
        try:
            _, end = _STRICT.raw_decode(self.text, at)
            return parse_piece(self.text[at:end]), end, True
        except (ValueError, RecursionError):
            pass
        mark = self.text[at]
        if mark == '"':
            return self._string(at)
        if mark not in "[{" or depth >= _MAX_DEPTH:
            return None, at, False
        return self._array(at + 1, depth) if mark == "[" else self._members(at + 1, depth)

    def _string(self, at: int) -> tuple[JsonValue, int, bool]:
        """A string that holds line breaks, or that is cut off by the text's end."""
        try:
            value, end = _LENIENT.raw_decode(self.text, at)
            return value, end, True
        except ValueError:
            pass
        cut = _CUT_STRING.match(self.text, at)
        if cut is None:
            return None, at, False
        self.troubles.append(len(self.text))
        source = _CUT_ESCAPE.sub("", cut.group(1))
        try:
            value = json.loads(f'"{source}"', strict=False)
        except ValueError:
            value = source
        return f"{value} … cut off here …", len(self.text), True

    def _array(self, at: int, depth: int) -> tuple[JsonValue, int, bool]:
        items: list[JsonValue] = []
        while (at := self.blank(at)) < len(self.text):
            if self.text[at] == "]":
                return items, at + 1, True
            if self.text[at] == ",":
                at += 1
                continue
            value, end, is_whole = self.read(at, depth + 1)
            if end > at:
                items.append(value)
                at = self.blank(end)
            if at < len(self.text) and (not is_whole or self.text[at] not in ",]"):
                items.append(self.broken(at))
                at = self.resumed
        if not self.troubles or self.troubles[-1] < len(self.text):
            self.troubles.append(len(self.text))
        return items, at, True

    def _members(self, at: int, depth: int) -> tuple[JsonValue, int, bool]:
        pairs: list[tuple[str, JsonValue]] = []
        while (at := self.blank(at)) < len(self.text):
            if self.text[at] == "}":
                return JsonObject(pairs), at + 1, True
            if self.text[at] == "," and pairs:
                at += 1
                continue
            if self.text[at] != '"':
                return JsonObject(pairs), at, False
            try:
                key, end = _LENIENT.raw_decode(self.text, at)
            except ValueError:
                return JsonObject(pairs), at, False
            colon = self.blank(end)
            start = self.blank(colon + 1)
            if self.text[colon : colon + 1] != ":" or start >= len(self.text):
                return JsonObject(pairs), at, False
            value, end, is_whole = self.read(start, depth + 1)
            if end == start:
                return JsonObject(pairs), at, False
            pairs.append((key, value))
            at = self.blank(end)
            if not is_whole or (at < len(self.text) and self.text[at] not in ",}"):
                return JsonObject(pairs), at, False
        self.troubles.append(len(self.text))
        return JsonObject(pairs), at, True


_STRICT = json.JSONDecoder(parse_int=str)
_LENIENT = json.JSONDecoder(strict=False)


def _elements(text: str) -> Iterator[str]:
    """The sources of the elements of the outermost brackets of a Python literal, and what follows these."""
    depth = start = end = 0
    for match in _LITERAL_TOKEN.finditer(text):
        mark = match.group()
        if mark in "[({":
            depth += 1
            if depth == 1:
                start = match.end()
        elif mark in "])}":
            depth -= 1
            if depth == 0:
                end = match.end()
                if element := text[start : match.start()].strip():
                    yield element
                break
        elif mark == "," and depth == 1:
            yield text[start : match.start()].strip()
            start = match.end()
    if rest := text[end or start :].strip():
        yield rest


def _evaluated(source: str) -> JsonValue:
    """An element's value; its source where Python would have to be run to know it."""
    if len(source) > _MAX_LITERAL or _WARNED.search(source):
        return source
    try:
        return _as_json(ast.literal_eval(source))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return source


def _object(elements: list[str]) -> JsonObject | list[JsonValue]:
    """An object of `key: value` sources; where one is none of these, their list."""
    pairs: list[tuple[str, JsonValue]] = []
    for index, source in enumerate(elements):
        value = _evaluated(f"{{{source}}}")
        if not isinstance(value, JsonObject):
            if index < len(elements) - 1 or not pairs:
                return list(elements)
            pairs.append(("… not a literal", source))
        else:
            pairs += value.pairs
    return JsonObject(pairs)


def _as_json(value: object) -> JsonValue:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, dict):
        return JsonObject(
            [(key if isinstance(key, str) else repr(key), _as_json(item)) for key, item in value.items()]
        )
    if isinstance(value, list | tuple):
        return [_as_json(item) for item in value]
    return Literal(repr(value)) if isinstance(value, int | float) else repr(value)
