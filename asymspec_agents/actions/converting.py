"""Conversions of values to what a schema wants: only where both say the same, and there is one way."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .json_text import NotJSONError, read_strictly

__all__ = ["Mended", "branches", "decoded", "mended"]

MAX_EXACT = 2**53  # whole numbers up to here are what their digits say also as floats
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,300})")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?")
_NOTHING = object()
_Change = tuple[tuple[str | int, ...], Any, Any]


@dataclass(frozen=True, slots=True)
class Mended:
    """A value that solves a problem, and its changes: the place inside, what was there and what is now."""

    value: Any
    changes: tuple[_Change, ...]


def mended(problem: Any, is_exact: bool) -> list[Mended]:
    """The different values that would solve a problem of jsonschema, in place of the one it is about.

    A union's problem is solved by what solves all those of one of its branches, however deep they are.
    """
    found: dict[str, Mended] = {}
    for new in _ways(problem, is_exact):
        found.setdefault(json.dumps(new.value), new)
    return list(found.values())


def branches(problem: Any) -> list[list[Any]]:
    """The problems that a union's value has with each of its branches; empty for another problem."""
    if problem.validator not in ("anyOf", "oneOf"):
        return []
    by_branch: dict[Any, list[Any]] = {}
    for inner in problem.context or ():
        by_branch.setdefault(inner.relative_schema_path[0], []).append(inner)
    return list(by_branch.values())


def decoded(text: str) -> Any:
    """The value of a text that is JSON and nothing else; otherwise a value of no JSON type."""
    try:
        read = read_strictly(text.strip(), 0)
    except NotJSONError:
        return _NOTHING
    return read.value if read.end == len(text.strip()) else _NOTHING


def _ways(problem: Any, is_exact: bool) -> Iterable[Mended]:
    if problem.validator == "type":
        wanted = problem.validator_value
        for kind in [wanted] if isinstance(wanted, str) else wanted:
            new = _as(kind, problem.instance, is_exact)
            if new is not _NOTHING:
                yield Mended(new, (((), problem.instance, new),))
    for branch in branches(problem):
        value = _Holder(copy.deepcopy(problem.instance))
        if all(value.take(inner, is_exact) for inner in branch):
            yield Mended(value.value, tuple(value.changes))


class _Holder:
    """A value that takes the only solution of each problem with a branch."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.changes: list[_Change] = []

    def take(self, problem: Any, is_exact: bool) -> bool:
        found = mended(problem, is_exact)
        if len(found) != 1:
            return False
        path = tuple(problem.relative_path)
        if path:
            holder = self.value
            for step in path[:-1]:
                holder = holder[step]
            holder[path[-1]] = found[0].value
        else:
            self.value = found[0].value
        self.changes += [((*path, *inner), before, after) for inner, before, after in found[0].changes]
        return True


def _as(kind: str, value: Any, is_exact: bool) -> Any:
    """The value as JSON's type `kind` where both say the same, `_NOTHING` where not."""
    if isinstance(value, str):
        text = value.strip()
        if kind == "integer" and _INTEGER.fullmatch(text):
            return int(text)
        if kind == "number" and _NUMBER.fullmatch(text):
            number = int(text) if _INTEGER.fullmatch(text) else float(text)
            return number if Decimal(repr(number)) == Decimal(text) else _NOTHING
        if kind == "boolean" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if kind == "null" and text.lower() in ("null", "none"):
            return None
        if kind in ("array", "object"):
            said = decoded(text)
            return said if isinstance(said, list if kind == "array" else dict) else _NOTHING
    elif kind == "string" and is_exact and isinstance(value, int):
        return json.dumps(value)  # a float's text is lost: 1.10 became 1.1
    elif kind == "integer" and isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT:
        return int(value)
    return _NOTHING
