"""JSON read and written back without loss: number literals as written, key order, duplicate keys, NaN.

Only white space and the way characters are escaped may differ in what `write` makes of what `parse` read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

__all__ = ["MAX_DEPTH", "JsonObject", "JsonValue", "Literal", "parse", "quote", "sizes", "text_of", "write"]

MAX_DEPTH = 100
# A string that is never closed reaches to the end: trying each of its quotes anew would be quadratic.
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_BRACKET = re.compile(r"[\[\]{}]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Literal(str):
    """A number, `NaN` or `Infinity`, as written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, eq=False)
class JsonObject:
    """An object as its (key, value) pairs, in order, duplicates included."""

    pairs: list[tuple[str, JsonValue]]


JsonValue: TypeAlias = "str | bool | JsonObject | list[JsonValue] | None"


def parse(text: str) -> JsonValue:
    """The value that `text` is. Raises ValueError where it is not JSON or is nested over 100 deep."""
    if _depth(text) > MAX_DEPTH:
        raise ValueError(f"JSON nested more than {MAX_DEPTH} deep")
    value: JsonValue = json.loads(
        text, parse_float=Literal, parse_int=Literal, parse_constant=Literal, object_pairs_hook=JsonObject
    )
    return value


def _depth(text: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKET.findall(_STRING.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def quote(text: str) -> str:
    """`text` as a JSON string; only what must be is escaped, lone surrogates among it."""
    quoted = json.dumps(text, ensure_ascii=False)
    return _SURROGATE.sub(lambda match: f"\\u{ord(match.group()):04x}", quoted)


def write(value: JsonValue) -> str:
    """The value as compact JSON."""
    if isinstance(value, Literal):
        return str(value)
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, JsonObject):
        return "{" + ",".join(f"{quote(key)}:{write(item)}" for key, item in value.pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(write, value)) + "]"
    return "null" if value is None else "true" if value else "false"


def sizes(value: JsonValue) -> dict[int, int]:
    """Characters of each container's compact form, by `id`; valid while the value lives."""
    found: dict[int, int] = {}

    def measure(node: JsonValue) -> int:
        if isinstance(node, JsonObject):
            total = sum(len(key) + 4 + measure(item) for key, item in node.pairs) + 1
        elif isinstance(node, list):
            total = sum(1 + measure(item) for item in node) + 1
        elif isinstance(node, Literal):
            return len(node)
        elif isinstance(node, str):
            return len(node) + 2
        else:
            return 4
        found[id(node)] = total
        return total

    measure(value)
    return found


def text_of(value: JsonValue) -> Iterator[str]:
    """The keys, strings and numbers in a value, in order."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, JsonObject):
        for key, item in value.pairs:
            yield key
            yield from text_of(item)
    elif isinstance(value, list):
        for item in value:
            yield from text_of(item)
