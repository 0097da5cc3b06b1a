"""A Python function as a tool: name, docstring and the schema of its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from pydantic import PydanticUserError, TypeAdapter

from ..errors import ConfigurationError
from ..messages import FunctionSpec, ToolSpec

__all__ = ["tool_spec"]


def tool_spec(function: Callable[..., Any]) -> ToolSpec:
    """The function's tool; its schema is pydantic's for the parameters, without titles it made up.

    Raises ConfigurationError for parameters that have no names of their own or no JSON schema.
    """
    name = getattr(function, "__name__", type(function).__name__)
    odd = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    )
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind in odd:
            raise ConfigurationError(f"{name}: parameter {parameter} cannot be given by its name")
    kind: Any = function
    try:
        schema = TypeAdapter(kind).json_schema()
    except PydanticUserError as error:
        raise ConfigurationError(f"{name}: its parameters have no JSON schema ({error.message})") from error
    for field in schema.get("properties", {}).values():
        field.pop("title", None)
    described = inspect.getdoc(function)
    return ToolSpec(
        type="function",
        function=FunctionSpec(name=name, description=described or "", parameters=schema),
    )
