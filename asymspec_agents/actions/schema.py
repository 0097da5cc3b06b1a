"""Arguments against a tool's JSON schema, with conversions where nothing is lost by them.

Validation is jsonschema's (https://python-jsonschema.readthedocs.io), by the draft the schema names, 2020-12
where it names none. References to other documents are never fetched.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from ..errors import ConfigurationError, MissingDependencyError
from ..messages import ToolSpec
from .json_text import NotJSONError, read_strictly

__all__ = ["Checked", "ToolSchema", "tool_schemas"]

MAX_ROUNDS = 100  # conversions of one call's arguments
MAX_SAID = 5  # problems told at once
_INTEGER = re.compile(r"-?(?:0|[1-9]\d{0,300})")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,300})(?:\.\d{1,300})?(?:[eE][+-]?\d{1,3})?")
_NOTHING = object()


@dataclass(frozen=True, slots=True)
class Checked:
    """Arguments that the schema allows, and what was converted to have them so."""

    arguments: dict[str, Any]
    changes: tuple[str, ...]


def tool_schemas(tools: Sequence[ToolSpec]) -> dict[str, ToolSchema]:
    """The tools' schemas by name. Raises ConfigurationError for no tools, one name twice, or no schema."""
    schemas: dict[str, ToolSchema] = {}
    for index, tool in enumerate(tools):
        if tool.function is None:
            raise ConfigurationError(f"tools[{index}].function is missing; an action names a function")
        name = tool.function.name
        if name in schemas:
            raise ConfigurationError(f"tools[{index}].function.name={name!r}: a second tool of that name")
        schemas[name] = ToolSchema(name, tool.function.parameters)
    if not schemas:
        raise ConfigurationError("tools is empty; an agent that acts needs at least one")
    return schemas


class ToolSchema:
    """One tool's parameters; without any, its arguments are any object."""

    def __init__(self, name: str, parameters: Mapping[str, Any] | None) -> None:
        try:
            from jsonschema import exceptions, validators
            from referencing import Registry
        except ImportError as error:
            raise MissingDependencyError("jsonschema", "json") from error
        self.name = name
        try:  # a copy in plain types, which later changes of the given one leave alone
            schema = json.loads(json.dumps({"type": "object"} if parameters is None else dict(parameters)))
        except (TypeError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"tools: the parameters of {name!r} are no JSON ({error})") from error
        kind = validators.validator_for(schema, default=validators.Draft202012Validator)
        try:
            kind.check_schema(schema)
        except exceptions.SchemaError as error:
            place = error.json_path.removeprefix("$")
            raise ConfigurationError(
                f"tools: the parameters of {name!r} are no JSON schema: {place} {error.message}"
            ) from error
        self._validator = kind(schema, registry=Registry())  # an empty registry fetches nothing
        properties = schema.get("properties")
        self.properties: dict[str, Any] = properties if isinstance(properties, dict) else {}
        self._required = schema.get("required") or ()

    def check(self, arguments: Any, *, is_exact: bool) -> Checked:
        """The arguments, converted where that is needed and loses nothing.

        `is_exact`: they are what the model wrote, not what a repair made of it. Raises NotJSONError, naming
        places and what the schema wants there.
        """
        changes: list[str] = []
        value = self._object(copy.deepcopy(arguments), changes)
        for _ in range(MAX_ROUNDS):
            problems = self._problems(value)
            if not problems:
                return Checked(value, tuple(changes))
            if not any(self._convert(value, problem, is_exact, changes) for problem in problems):
                break
        else:
            problems = self._problems(value)
        said = "; ".join(_said(problem) for problem in problems[:MAX_SAID])
        more = f"; and {len(problems) - MAX_SAID} more" if len(problems) > MAX_SAID else ""
        raise NotJSONError(f"{self.name} cannot take these arguments: {said}{more}")

    def _problems(self, value: Any) -> list[Any]:
        from referencing.exceptions import Unresolvable

        try:
            return list(self._validator.iter_errors(value))
        except Unresolvable as error:
            raise ConfigurationError(
                f"tools: the parameters of {self.name!r} refer to what is not in them: {error}"
            ) from error
        except RecursionError as error:
            raise NotJSONError(f"{self.name}'s arguments are nested too deeply") from error

    def _object(self, arguments: Any, changes: list[str]) -> dict[str, Any]:
        """The arguments as an object: JSON text decoded, and a bare value given to the only parameter."""
        if isinstance(arguments, str):
            decoded = _decoded(arguments)
            if isinstance(decoded, dict):
                changes.append("the arguments were JSON text")
                arguments = decoded
        if isinstance(arguments, dict):
            return arguments
        if arguments is None:
            changes.append("the arguments were null: taken as none")
            return {}
        names = list(self._required) if len(self._required) == 1 else list(self.properties)
        if len(names) == 1 and not isinstance(arguments, list):
            changes.append(f"a value without a name was given to {names[0]!r}, the only parameter")
            return {names[0]: arguments}
        raise NotJSONError(f"the arguments of {self.name} must be an object, not {_kind(arguments)}")

    def _convert(self, value: Any, problem: Any, is_exact: bool, changes: list[str]) -> bool:
        """Converts the value a problem is about in place; False where nothing safe would mend it."""
        path = list(problem.absolute_path)
        wanted = list(_wanted_types(problem))
        found = {
            json.dumps(new): new
            for name in wanted
            if (new := _as(name, problem.instance, is_exact)) is not _NOTHING
        }
        if not path or len(found) != 1:  # no way, or several: then it is the model's to say
            return False
        ((_, new),) = found.items()
        holder = value
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = new
        changes.append(f"{_place(path)}: {_short(problem.instance)} was taken as {_short(new)}")
        return True


def _wanted_types(problem: Any) -> Iterable[str]:
    """The types that would solve a problem, of one schema or of the branches of an `anyOf`."""
    if problem.validator == "type":
        wanted = problem.validator_value
        yield from [wanted] if isinstance(wanted, str) else wanted
    elif problem.validator in ("anyOf", "oneOf"):
        for branch in problem.context or ():
            if list(branch.absolute_path) == list(problem.absolute_path):
                yield from _wanted_types(branch)


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
            decoded = _decoded(text)
            return decoded if isinstance(decoded, list if kind == "array" else dict) else _NOTHING
    elif kind == "string" and is_exact and isinstance(value, int):
        return json.dumps(value)  # a float's text is lost: 1.10 became 1.1
    return _NOTHING


def _decoded(text: str) -> Any:
    try:
        read = read_strictly(text.strip(), 0)
    except NotJSONError:
        return _NOTHING
    return read.value if read.end == len(text.strip()) else _NOTHING


def _said(problem: Any) -> str:
    """One problem in words, the value cut short: it goes back to the model, which knows it."""
    path = list(problem.absolute_path)
    text = problem.message if len(problem.message) <= 300 else f"{problem.message[:300]}…"
    return f"{_place(path)}: {text}" if path else text


def _place(path: Sequence[str | int]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return steps.removeprefix(".")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)
