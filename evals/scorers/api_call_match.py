"""Whether a call is the one an API-Bank dialogue has at this point: `api_call_match`, a measure of our own.

It is not API-Bank's accuracy, for which the predicted call is executed on a simulated database and its result
compared, by rules of each API. Here the name must be equal, and so must the arguments, as values: texts
without white space and one pair of quotes around them; a number and its plain spelling; true and "True";
lists and objects item by item, also where one side has them written as a text (API-Bank's parameters are all
texts, such as "['Ann', 'Ben']"). Parameters that are documented as numbers are compared as numbers also where
both sides are texts. Nothing is fuzzy: where officially half of a title's words may differ, here none may.

The classes of errors have API-Bank's names (paper, appendix on error analysis; README of
AlibabaResearch/DAMO-ConvAI, api-bank). Those that need an execution do not occur.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .calls import WrittenCall

__all__ = ["CallMatch", "match_call", "same_value"]

_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,30})(?:\.[0-9]{1,30})?")  # "007" is an identifier
_NUMERIC_TYPES = ("int", "float")
_MAX_LITERAL_CHARS = 10_000


@dataclass(frozen=True, slots=True)
class CallMatch:
    """Whether it is the call; else the error's class, and the parameter it is about where there is one."""

    is_right: bool
    error: str | None = None
    parameter: str | None = None


def match_call(
    call: WrittenCall, name: str, arguments: Mapping[str, Any], documented: Mapping[str, str]
) -> CallMatch:
    """Compares a call with the name and arguments it should have; `documented` are types by parameter.

    Errors, the first that applies: API_NAME_MISMATCH; FAILED_PARSE_API_CALL (arguments that are no object);
    INVALID_INPUT_PARAMETER (the API has no such parameter); MISS_INPUT_ARGUMENT; INPUT_MISMATCH (another
    value, or an argument that the dialogue's call does not have).
    """
    if call.name.strip() != name:
        return CallMatch(False, "API_NAME_MISMATCH")
    if call.arguments is None:
        return CallMatch(False, "FAILED_PARSE_API_CALL")
    for parameter in call.arguments:
        if parameter not in documented and parameter not in arguments:
            return CallMatch(False, "INVALID_INPUT_PARAMETER", parameter)
    for parameter in arguments:
        if parameter not in call.arguments:
            return CallMatch(False, "MISS_INPUT_ARGUMENT", parameter)
    for parameter, value in call.arguments.items():
        is_number = documented.get(parameter) in _NUMERIC_TYPES
        if parameter not in arguments or not same_value(arguments[parameter], value, is_number=is_number):
            return CallMatch(False, "INPUT_MISMATCH", parameter)
    return CallMatch(True)


def same_value(expected: Any, given: Any, *, is_number: bool = False) -> bool:
    """Whether two arguments are the same value; `is_number`: texts that spell numbers are numbers."""
    if isinstance(expected, str) and isinstance(given, str):
        expected, given = _bare(expected), _bare(given)
        if expected == given:
            return True
        if is_number and _NUMBER.fullmatch(expected) and _NUMBER.fullmatch(given):
            return float(expected) == float(given)
        structures = _structure(expected), _structure(given)
        return None not in structures and same_value(*structures)
    if isinstance(expected, str):
        return _spells(expected, given)
    if isinstance(given, str):
        return _spells(given, expected)
    if isinstance(expected, bool) or isinstance(given, bool):
        return expected is given
    if isinstance(expected, list | tuple) and isinstance(given, list | tuple):
        return len(expected) == len(given) and all(map(same_value, expected, given))
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        return expected.keys() == given.keys() and all(
            same_value(expected[key], given[key]) for key in expected
        )
    return bool(expected == given)


def _bare(text: str) -> str:
    """The text without white space and one pair of equal quotes around it."""
    text = text.strip()
    is_quoted = len(text) >= 2 and text[0] == text[-1] and text[0] in "'\""
    return text[1:-1].strip() if is_quoted else text


def _spells(text: str, value: Any) -> bool:
    """Whether a text is how the value, which is no text, is written."""
    text = _bare(text)
    if isinstance(value, bool):
        return text.lower() == str(value).lower()
    if isinstance(value, int | float):
        return _NUMBER.fullmatch(text) is not None and float(text) == value
    if isinstance(value, list | tuple | Mapping):
        structure = _structure(text)
        return structure is not None and same_value(structure, value)
    return False


def _structure(text: str) -> Any:
    """The list or object that a text is, in JSON or in Python's notation; None for any other text."""
    if not text.startswith(("[", "{", "(")) or len(text) > _MAX_LITERAL_CHARS:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of odd escapes in texts
                value = ast.literal_eval(text)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            return None
    return value if isinstance(value, list | tuple | dict) else None
