"""A parameter's value from its text, by the JSON schema of the tool, for formats that write bare text."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping
from typing import Any

from .base import Tools, read_json, skip_space
from .pythonic import parse_python

__all__ = ["allowed_types", "convert"]

MAX_DEPTH = 16  # of alternatives in a schema
ALL_TYPES = frozenset({"string", "integer", "number", "boolean", "null", "object", "array"})


def allowed_types(tools: Tools, function: str, parameter: str) -> frozenset[str]:
    """The JSON types a tool's schema allows for a parameter; all of them where it does not say."""
    root = tools.schemas.get(function, {})
    properties = root.get("properties")
    schema = properties.get(parameter) if isinstance(properties, Mapping) else None
    return frozenset(_types(schema, root, set(), MAX_DEPTH)) & ALL_TYPES or ALL_TYPES


def convert(text: str, types: frozenset[str]) -> Any:
    """The value of one of the types that the text stands for; the text itself where it stands for none.

    These formats write strings without quotes, so JSON's strings are text as it is.
    """
    if types == {"string"}:
        return text
    body = text.strip()
    found = read_json(body, 0)
    values = [found.value] if found is not None and skip_space(body, found.end) == len(body) else []
    if not values:
        values = _python_literal(body)
    for value in values:
        if isinstance(value, float) and value.is_integer() and "number" not in types:
            value = int(value)
        if not isinstance(value, str) and types & _types_of(value):
            return value
    return text


def _types(schema: Any, root: Mapping[str, Any], seen: set[str], depth: int) -> set[str]:
    """The types a schema names, itself, by its values, by reference into `root`, or by its alternatives."""
    if not isinstance(schema, Mapping) or depth == 0:
        return set()
    declared = schema.get("type")
    names = declared if isinstance(declared, list) else [declared]
    types = {name for name in names if isinstance(name, str)}
    values = schema.get("enum", [schema["const"]] if "const" in schema else [])
    if not types and isinstance(values, list):
        types = {kind for value in values for kind in _types_of(value)}
    reference = schema.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        seen.add(reference)
        types |= _types(_target(reference, root), root, seen, depth - 1)
    for key in ("anyOf", "oneOf", "allOf"):
        alternatives = schema.get(key)
        for one in alternatives if isinstance(alternatives, list) else ():
            types |= _types(one, root, seen, depth - 1)
    return types | {"null"} if types and schema.get("nullable") is True else types


def _target(reference: str, root: Mapping[str, Any]) -> Any:
    """What a local JSON pointer points at, None where it points nowhere."""
    target: Any = root
    for step in reference.removeprefix("#/").split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        target = target.get(name) if isinstance(target, Mapping) else None
    return target


def _types_of(value: Any) -> frozenset[str]:
    """The names JSON schema has for the value's type."""
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int):
        return frozenset({"integer", "number"})
    if isinstance(value, float):
        return frozenset({"number"}) if math.isfinite(value) else frozenset()
    names = {str: "string", type(None): "null", dict: "object", list: "array"}
    return frozenset({names[type(value)]}) if type(value) in names else frozenset()


def _python_literal(text: str) -> list[Any]:
    """The value of True, None, {'a': 1} and their kind, which templates write for objects they print."""
    tree = parse_python(text)
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], ast.Expr):
        return []
    try:
        value = ast.literal_eval(tree.body[0].value)
    except (ValueError, TypeError, RecursionError, MemoryError):
        return []
    return [value] if value is None or isinstance(value, bool | dict | list) else []
