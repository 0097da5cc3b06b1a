"""BFCL's documentation of functions as tools with JSON schemas.

Source: how bfcl-eval 2026.3.23 makes tools for models that call natively (`model_handler/utils.py`, for
OpenAI's format): dots in names become underscores; `dict` is an object, `float` a number (with a sentence in
its description), `tuple` an array, `any` and what is unknown a string. One thing differs: schemas are
converted at every depth, where the official code stops after two and leaves names such as `dict` that are no
JSON schema.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..scorers.bfcl_calls import tool_name

__all__ = ["as_tools"]

_TYPES = {
    "integer": "integer",
    "number": "number",
    "float": "number",
    "string": "string",
    "boolean": "boolean",
    "bool": "boolean",
    "array": "array",
    "list": "array",
    "tuple": "array",
    "dict": "object",
    "object": "object",
}
_IS_FLOAT = " This is a float type value."


def as_tools(functions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The functions as tools on OpenAI's wire; they themselves stay as they are."""
    return [
        {
            "type": "function",
            "function": {
                **function,
                "name": tool_name(function["name"]),
                "parameters": {**_schema(function["parameters"]), "type": "object"},
            },
        }
        for function in functions
    ]


def _schema(documented: Mapping[str, Any], *, is_named: bool = True) -> dict[str, Any]:
    schema = dict(documented)
    kind = documented.get("type")
    schema["type"] = _TYPES.get(kind, "string") if isinstance(kind, str) else "string"
    if kind == "float" and is_named:  # of a list's items the official tools say nothing more
        schema["format"] = "float"
        schema["description"] = schema.get("description", "") + _IS_FLOAT
    if isinstance(documented.get("properties"), Mapping):
        schema["properties"] = {name: _schema(part) for name, part in documented["properties"].items()}
    if isinstance(documented.get("items"), Mapping):
        schema["items"] = _schema(documented["items"], is_named=False)
    return schema
