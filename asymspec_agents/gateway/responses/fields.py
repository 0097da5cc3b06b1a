"""Values of a Responses body, taken out with an error that names field and value where they are wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn

from ...errors import MessageError, UnsupportedRequestError

__all__ = ["a_list", "a_mapping", "a_text", "refuse"]


def refuse(place: str, value: object, why: str) -> NoReturn:
    """Raises UnsupportedRequestError for a well-formed field that chat completions have no place for."""
    shown = f"={value!r}" if isinstance(value, str | int | float) and len(repr(value)) <= 80 else ""
    raise UnsupportedRequestError(f"{place}{shown}: {why}")


def a_mapping(value: object, place: str) -> Mapping[str, Any]:
    """The value as an object; raises MessageError."""
    if not isinstance(value, Mapping):
        raise MessageError(f"{place}: must be an object")
    return value


def a_list(value: object, place: str) -> list[Any]:
    """The value as a list; raises MessageError."""
    if not isinstance(value, list):
        raise MessageError(f"{place}: must be a list")
    return value


def a_text(fields: Mapping[str, Any], name: str, place: str) -> str:
    """A field that must be a text; raises MessageError."""
    value = fields.get(name)
    if not isinstance(value, str):
        raise MessageError(f"{place}.{name}: must be a string")
    return value
