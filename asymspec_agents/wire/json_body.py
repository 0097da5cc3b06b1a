"""Bytes of a JSON request to plain values, refusing what is no JSON and what would hurt the reader."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

from ..errors import MessageError

__all__ = ["MAX_DEPTH", "json_object", "unambiguous_object"]

MAX_DEPTH = 64  # levels of lists and objects; the deepest tool schemas in use have about twenty
MAX_DIGITS = 4_000  # of one integer; Python refuses above 4,300, as their conversion takes quadratic time


def json_object(body: bytes) -> dict[str, Any]:
    """The object that `body` is. Raises MessageError saying what is wrong and where.

    Refused beside broken JSON: bytes that are no UTF-8, NaN and infinite numbers (1e999 is one), integers
    of more than MAX_DIGITS, nesting deeper than MAX_DEPTH, and anything but an object.
    """
    return _read(body, dict)


def unambiguous_object(body: bytes) -> dict[str, Any]:
    """As `json_object`, for bytes that others will read as well: an object with a name twice is refused.

    Readers differ on which one counts (RFC 8259, 4), so what was checked here might not be used there.
    """
    return _read(body, _once_each)


def _read(body: bytes, make_object: Callable[[list[tuple[str, Any]]], dict[str, Any]]) -> dict[str, Any]:
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MessageError(f"the body is not UTF-8: byte {error.start} is {error.reason}") from error
    try:
        value = json.loads(
            text,
            object_pairs_hook=make_object,
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except RecursionError as error:
        raise MessageError(f"the body is nested deeper than {MAX_DEPTH} levels") from error
    except ValueError as error:
        raise MessageError(f"the body is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise MessageError(f"the body must be a JSON object, not {_kind(value)}")
    _check_depth(value)
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise ValueError("an object has a name twice")
    return made


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is beyond what a number can hold")
    return number


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f"a number has {len(digits):,} digits; the limit is {MAX_DIGITS:,}")
    return int(digits)


def _kind(value: object) -> str:
    names = {list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def _check_depth(value: Any) -> None:
    """Level by level, as recursion is what a deep value would break."""
    level: list[Any] = [value]
    depth = 0
    while level:
        depth += 1
        if depth > MAX_DEPTH:
            raise MessageError(f"the body is nested deeper than {MAX_DEPTH} levels")
        level = [
            child
            for item in level
            for child in (item.values() if isinstance(item, dict) else item)
            if isinstance(child, dict | list)
        ]
