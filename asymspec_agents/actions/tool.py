"""A Python function as a tool: name, docstring, the schema of its parameters, and their values from JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import PrivateAttr, PydanticUserError, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation

from ..errors import ConfigurationError
from ..messages import FunctionSpec, ToolSpec
from .json_text import NotJSONError

__all__ = ["FunctionTool", "tool_spec"]

_ODD = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.VAR_POSITIONAL,
    inspect.Parameter.VAR_KEYWORD,
)


class FunctionTool(ToolSpec):
    """The tool of a function. On the wire it is any tool; here it knows the types of its parameters."""

    _types: dict[str, TypeAdapter[Any]] = PrivateAttr(default_factory=dict)

    def built(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments in the types the function takes. Raises NotJSONError for what they refuse."""
        values = {}
        for name, value in arguments.items():
            try:
                values[name] = self._types[name].validate_python(value) if name in self._types else value
            except ValidationError as error:
                said = error.errors(include_url=False, include_context=False)[0]
                place = ".".join(str(step) for step in (name, *said["loc"]))
                raise NotJSONError(f"{place}: {said['msg']}") from error
        return values


def tool_spec(function: Callable[..., Any]) -> ToolSpec:
    """The function's tool; its schema is pydantic's for the parameters, without titles it made up.

    Actions that were read with this tool have arguments in the function's types: objects of pydantic models
    and dataclasses, dates, enums, sets. Raises ConfigurationError for what has no signature, and for
    parameters that have no names of their own or no JSON schema.
    """
    name = getattr(function, "__name__", type(function).__name__)
    kind: Any = function
    try:
        parameters = inspect.signature(function, eval_str=True).parameters
        for parameter in parameters.values():
            if parameter.kind in _ODD:
                raise ConfigurationError(f"{name}: parameter {parameter} cannot be given by its name")
        schema = TypeAdapter(kind).json_schema()
        types = {
            key: TypeAdapter(parameter.annotation)
            for key, parameter in parameters.items()
            if parameter.annotation is not inspect.Parameter.empty
        }
    except (PydanticUserError, PydanticUndefinedAnnotation) as error:
        raise ConfigurationError(f"{name}: its parameters have no JSON schema ({error.message})") from error
    except (TypeError, ValueError, NameError) as error:
        raise ConfigurationError(f"{name}: it is no function whose parameters are known ({error})") from error
    fields = schema.get("properties", {})
    renamed = sorted(fields.keys() - parameters.keys())
    if renamed:
        raise ConfigurationError(f"{name}: {renamed[0]!r} is an alias; a function is called by its own names")
    for field in fields.values():
        field.pop("title", None)
    described = inspect.getdoc(function)
    tool = FunctionTool(
        type="function",
        function=FunctionSpec(name=name, description=described or "", parameters=schema),
    )
    tool._types = types
    return tool
