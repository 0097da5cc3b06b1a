"""JSON read and written back without loss: number literals as written, key order, duplicate keys, NaN.

Only white space and the way characters are escaped may differ in what `write` makes of what `parse` read. Of
long documents only the outer containers are taken apart at first; what lies within is checked to be JSON and
taken apart when it is asked for (`Unread`), so the cost follows what is looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

__all__ = [
    "MAX_DEPTH",
    "JsonObject",
    "JsonValue",
    "Literal",
    "Unread",
    "one_line",
    "parse",
    "parse_piece",
    "quote",
    "read",
    "text_of",
    "write",
]

MAX_DEPTH = 100
_MAX_WHOLE = 16_384  # characters of a container that is not taken apart before it is needed
# A string that is never closed reaches to the end: trying each of its quotes anew would be quadratic.
# A container that holds no other is one token where it has few strings; what is left of it is checked later.
_TOKEN = re.compile(
    r'[\[{][^"\[\]{}]{0,400}(?:"[^"\\]{0,400}(?:\\.[^"\\]{0,400}){0,8}"[^"\[\]{}]{0,400}){0,40}[\]}]'
    r'|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)|[\[\]{},:]',
    re.DOTALL,
)
_BLANK = " \t\n\r"
_SURROGATE = re.compile("[\ud800-\udfff]")


class Literal(str):
    """A number, `NaN` or `Infinity`, as written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class JsonObject:
    """An object as its (key, value) pairs, in order, duplicates included."""

    pairs: list[tuple[str, JsonValue]]


@dataclass(frozen=True, slots=True, eq=False)
class Unread:
    """The source of an object or array, known to be JSON."""

    source: str


# Made once: making one for each of many small values costs more than reading them.
_VALUES = json.JSONDecoder(
    parse_float=Literal, parse_int=Literal, parse_constant=Literal, object_pairs_hook=JsonObject
)
_CHECKS = json.JSONDecoder(parse_int=str)  # integers of any length, as Python refuses to make numbers of them

JsonValue: TypeAlias = "str | bool | JsonObject | Unread | list[JsonValue] | None"


def parse(text: str) -> JsonValue:
    """The value that `text` is. Raises ValueError where it is not JSON or is nested over 100 deep."""
    spans = _spans(text)
    if isinstance(spans, _Container):
        outside = text[: spans.start] + text[spans.end :]
        if outside.strip(_BLANK):
            raise ValueError("text around the JSON value")
        return _taken_apart(text, spans)
    return _read(text)


def parse_piece(source: str) -> JsonValue:
    """The value of a line or an element, not taken apart where it is short; the same errors."""
    if source[:1] in ("{", "[") and len(source) <= _MAX_WHOLE:
        return _checked(source)
    return parse(source)


def read(value: JsonValue) -> JsonValue:
    """The value itself, taken apart if it was not."""
    return _read(value.source) if isinstance(value, Unread) else value


def _read(text: str) -> JsonValue:
    try:
        value: JsonValue = _VALUES.decode(text)
    except RecursionError:
        raise ValueError(f"JSON nested more than {MAX_DEPTH} deep") from None
    return value


def _check(source: str) -> None:
    """Raises ValueError where a source without blanks around it is no JSON."""
    if _CHECKS.raw_decode(source)[1] != len(source):
        raise ValueError("text after a value")


def _checked(source: str) -> Unread:
    """The source as it is; raises ValueError where it is no JSON or too deep."""
    if source.count("[") + source.count("{") > MAX_DEPTH:
        _spans(source)
    _check(source)
    return Unread(source)


@dataclass(slots=True)
class _Container:
    """Where a container begins and ends, its commas and colons, and the long ones of its children."""

    start: int
    end: int = 0
    commas: list[int] = field(default_factory=list)
    colons: list[int] = field(default_factory=list)
    long_children: dict[int, _Container] = field(default_factory=dict)


def _spans(text: str) -> _Container | None:
    """The outermost container and the long ones in it; None where `text` holds none (a bare literal)."""
    stack: list[_Container] = []
    for match in _TOKEN.finditer(text):
        at = match.start()
        mark = text[at]
        if mark == '"':
            continue
        if mark in "[{":
            if len(stack) >= MAX_DEPTH:
                raise ValueError(f"JSON nested more than {MAX_DEPTH} deep")
            if match.end() - at == 1:
                stack.append(_Container(at))
            elif not stack:
                return _Container(at, match.end())
        elif not stack:
            raise ValueError("a closing mark that nothing opened")
        elif mark == ",":
            stack[-1].commas.append(at)
        elif mark == ":":
            stack[-1].colons.append(at)
        else:
            closed = stack.pop()
            closed.end = at + 1
            if not stack:
                return closed
            if closed.end - closed.start > _MAX_WHOLE:
                stack[-1].long_children[closed.start] = closed
    if stack:
        raise ValueError("a container that is never closed")
    return None


def _taken_apart(text: str, spans: _Container) -> JsonValue:
    opening, closing = text[spans.start], text[spans.end - 1]
    if opening + closing not in ("[]", "{}"):
        raise ValueError("brackets that do not match")
    if spans.end - spans.start <= _MAX_WHOLE:
        return _read(text[spans.start : spans.end])
    cuts = [spans.start, *spans.commas, spans.end - 1]
    if opening == "[":
        if spans.colons:
            raise ValueError("a colon in an array")
        return _items(text, cuts, spans)
    if not spans.commas and not spans.colons:
        return _read(text[spans.start : spans.end])
    if len(spans.colons) != len(spans.commas) + 1:
        raise ValueError("a key without a value")
    pairs: list[tuple[str, JsonValue]] = []
    for start, colon, end in zip(cuts, spans.colons, cuts[1:], strict=False):
        key = json.loads(text[start + 1 : colon])
        if not isinstance(key, str):
            raise ValueError("a key that is no string")
        pairs.append((key, _member(text, colon + 1, end, spans)))
    return JsonObject(pairs)


def _items(text: str, cuts: list[int], spans: _Container) -> list[JsonValue]:
    """An array's items; runs of strings and literals are read together."""
    if not spans.commas and not text[cuts[0] + 1 : cuts[1]].strip(_BLANK):
        return []
    items: list[JsonValue] = []
    plain_start = cuts[0] + 1
    for start, end in pairwise(cuts):
        first = _first_mark(text, start + 1)
        if first in "[{" or end - plain_start > _MAX_WHOLE:
            if plain_start <= start:
                items += _plain_items(text[plain_start:start])
            plain_start = start + 1
        if first in "[{":
            items.append(_member(text, start + 1, end, spans))
            plain_start = end + 1
    if plain_start <= cuts[-1]:
        items += _plain_items(text[plain_start : cuts[-1]])
    return items


def _first_mark(text: str, index: int) -> str:
    while text[index] in _BLANK:
        index += 1
    return text[index]


def _plain_items(source: str) -> list[JsonValue]:
    items = _read(f"[{source}]")
    if not isinstance(items, list) or not items:
        raise ValueError("nothing between two commas")
    return items


def _member(text: str, start: int, end: int, spans: _Container) -> JsonValue:
    source = text[start:end].strip(_BLANK)
    if source[:1] not in ("{", "["):
        return _read(source)
    at = text.index(source[0], start)
    child = spans.long_children.get(at)
    if child is None:
        _check(source)
        return Unread(source)
    if child.end - child.start != len(source):
        raise ValueError("text after a value")
    return _taken_apart(text, child)


def quote(text: str) -> str:
    """`text` as a JSON string; only what must be is escaped, lone surrogates among it."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", quoted)


def write(value: JsonValue) -> str:
    """The value as compact JSON; what was not taken apart as it stood, on one line."""
    if isinstance(value, Unread):
        return one_line(value.source)
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, JsonObject):
        return "{" + ",".join(f"{quote(key)}:{write(item)}" for key, item in value.pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return "null" if value is None else "true" if value else "false"


def one_line(source: str) -> str:
    """JSON without its line breaks and indentation, which are never inside a string."""
    return "".join(map(str.strip, source.split("\n"))) if "\n" in source else source


def text_of(value: JsonValue) -> Iterator[str]:
    """The keys, strings and numbers in a value, in order; the source of what was not taken apart."""
    if isinstance(value, Unread):
        yield value.source
    elif isinstance(value, str):
        yield value
    elif isinstance(value, JsonObject):
        for key, item in value.pairs:
            yield key
            yield from text_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from text_of(item)
