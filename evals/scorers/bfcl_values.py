"""Whether a call's argument is one of those BFCL allows, in type and in value.

Source: the AST checker of the Berkeley Function-Calling Leaderboard, package bfcl-eval 2026.3.23
(`eval_checker/ast_eval/ast_checker.py`, Apache-2.0), Python category; its behaviour is written anew here and
compared with it verdict by verdict in the tests. The rules:

- An argument has the Python type of its documentation (`any` means a text); whole numbers pass as floats, but
  not within lists. Types are compared exactly: True is no integer. A list's items are judged one level deep.
- Where the allowed values have another type than the documentation says, a value of their type passes as well
  (the checker takes it for a variable's name) and must be equal to one of them.
- Texts are compared in lower case without spaces and without `, . / - _ * ^`, single quotes as double ones.
- A dictionary's keys list their own allowed values; "" among them says that the key may be missing. A list of
  dictionaries is compared item by item, in order.
- "" among the allowed values of a list also lets an empty list pass, as the checker takes it for a list
  without items.

One choice of our own: where the allowed values have a form the checker ends with an exception on, they match
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["PYTHON_TYPES", "standardised", "value_problem"]

PYTHON_TYPES: dict[str, type] = {
    "string": str,
    "integer": int,
    "float": float,
    "boolean": bool,
    "array": list,
    "tuple": list,
    "dict": dict,
    "any": str,
}
"""The types of BFCL's documentation and what an argument of each must be."""

_IGNORED = re.compile(r"[ ,./\-_*^]")


def standardised(value: Any) -> Any:
    """A text in the form in which texts are compared; any other value as it is."""
    return _IGNORED.sub("", value).lower().replace("'", '"') if isinstance(value, str) else value


def value_problem(value: Any, documented: Mapping[str, Any], allowed: Sequence[Any]) -> str | None:
    """None where the value passes, else `wrong_type` or `wrong_value`.

    `documented` is the parameter's documentation; its type, and its items' type, must be in PYTHON_TYPES.
    """
    outer = PYTHON_TYPES[documented["type"]]
    inner = PYTHON_TYPES[documented["items"]["type"]] if documented["type"] in ("array", "tuple") else None
    if documented["type"] == "float" and type(value) is int:
        value = float(value)
    if not _has_type(value, outer, inner, allowed):
        return "wrong_type"
    is_variable = type(value) is not outer or _type_of(allowed) not in (None, outer)
    return None if _is_allowed(value, outer, inner, allowed, is_variable) else "wrong_value"


def _type_of(allowed: Sequence[Any]) -> type | None:
    """The type of the first value that is more than the sign for a missing one."""
    return next((type(value) for value in allowed if value != ""), None)


def _has_type(value: Any, outer: type, inner: type | None, allowed: Sequence[Any]) -> bool:
    given = type(value)
    if given is not outer:
        return given is _type_of(allowed)
    if inner is None:
        return True
    return any(
        not isinstance(one, list) or all(_has_type(item, inner, None, one) for item in value)
        for one in allowed
    )


def _is_allowed(
    value: Any, outer: type, inner: type | None, allowed: Sequence[Any], is_variable: bool
) -> bool:
    if is_variable or outer not in (dict, list, str):
        return value in allowed
    if outer is str:
        return standardised(value) in [standardised(one) for one in allowed if isinstance(one, str)]
    if outer is dict:
        return any(_is_dict(value, one) for one in allowed)
    lists = [[] if one == "" else one for one in allowed if one == "" or isinstance(one, list)]
    if inner is dict:
        return any(len(value) == len(one) and all(map(_is_dict, value, one)) for one in lists)
    return list(map(standardised, value)) in [list(map(standardised, one)) for one in lists]


def _is_dict(value: Any, allowed: Any) -> bool:
    """Whether each key has one of its allowed values, and each key that may not be missing is there."""
    if not isinstance(value, dict) or not isinstance(allowed, dict):
        return False
    if not all(isinstance(values, list) for values in allowed.values()):
        return False
    has_values = all(
        key in allowed and standardised(one) in list(map(standardised, allowed[key]))
        for key, one in value.items()
    )
    return has_values and all(key in value or "" in values for key, values in allowed.items())
