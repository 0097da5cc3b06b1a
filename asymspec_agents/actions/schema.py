"""Arguments against a tool's JSON schema, with conversions where nothing is lost by them.

Validation is jsonschema's (https://python-jsonschema.readthedocs.io), by the draft the schema names, 2020-12
where it names none. References to other documents are never fetched.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigurationError, MissingDependencyError
from ..messages import ToolSpec
from .converting import branches, decoded, mended
from .json_text import NotJSONError
from .patterns import has_pattern
from .tool import FunctionTool

__all__ = ["Checked", "ToolSchema", "tool_schemas"]

MAX_ROUNDS = 100  # conversions of one call's arguments
MAX_SAID = 5  # problems told at once


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
        schemas[name] = ToolSchema(tool)
    if not schemas:
        raise ConfigurationError("tools is empty; an agent that acts needs at least one")
    return schemas


class ToolSchema:
    """One tool's parameters; without any, its arguments are any object."""

    def __init__(self, tool: ToolSpec) -> None:
        try:
            from jsonschema import exceptions, validators
            from referencing import Registry
        except ImportError as error:
            raise MissingDependencyError("jsonschema", "json") from error
        parameters = tool.function.parameters if tool.function is not None else None
        self.name = name = tool.function.name if tool.function is not None else ""
        self._tool = tool
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
        strict = validators.extend(
            kind,
            {"pattern": _pattern_problems},
            # 900.0 is an integer to JSON schema and none to Python: it is converted, and said to be.
            type_checker=kind.TYPE_CHECKER.redefine("integer", _is_integer),
        )
        self._validator = strict(schema, registry=Registry())  # an empty registry fetches nothing
        properties = schema.get("properties")
        self.properties: dict[str, Any] = properties if isinstance(properties, dict) else {}
        self._required = schema.get("required") or ()

    def check(self, arguments: Any, *, is_exact: bool) -> Checked:
        """The arguments, converted where that is needed and loses nothing; a function's as it takes them.

        `is_exact`: they are what the model wrote, not what a repair made of it. Raises NotJSONError, naming
        places and what the schema wants there.
        """
        changes: list[str] = []
        value = self._object(copy.deepcopy(arguments), changes)
        for _ in range(MAX_ROUNDS):
            problems = self._problems(value)
            if not problems:
                return Checked(self._built(value), tuple(changes))
            if not any(self._convert(value, problem, is_exact, changes) for problem in problems):
                break
        else:
            problems = self._problems(value)
        raise self._refusal([_said(problem) for problem in problems])

    def _refusal(self, said: Sequence[str]) -> NotJSONError:
        more = f"; and {len(said) - MAX_SAID} more" if len(said) > MAX_SAID else ""
        return NotJSONError(f"{self.name} cannot take these arguments: {'; '.join(said[:MAX_SAID])}{more}")

    def _built(self, value: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the tool's function takes them, where it is one: models, dates, sets."""
        if not isinstance(self._tool, FunctionTool):
            return value
        try:
            return self._tool.built(value)
        except NotJSONError as error:
            raise self._refusal([str(error)]) from error

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
            said = decoded(arguments)
            if isinstance(said, dict):
                changes.append("the arguments were JSON text")
                arguments = said
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
        found = mended(problem, is_exact)
        if not path or len(found) != 1:  # no way, or several: then it is the model's to say
            return False
        (new,) = found
        holder = value
        for step in path[:-1]:
            holder = holder[step]
        holder[path[-1]] = new.value
        for inner, before, after in new.changes:
            place = _place([*path, *inner])
            changes.append(f"{place}: {_short(before)} was taken as {_short(after)}")
        return True


def _is_integer(_: Any, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _pattern_problems(validator: Any, pattern: str, value: Any, _: Any) -> Any:
    from jsonschema.exceptions import ValidationError

    if validator.is_type(value, "string") and not has_pattern(value, pattern):
        yield ValidationError(f"{_short(value)} does not match {pattern!r}")


def _said(problem: Any, path: Sequence[str | int] | None = None) -> str:
    """One problem in words, the value cut short: it goes back to the model, which knows it."""
    at = list(problem.absolute_path) if path is None else path
    forms = branches(problem)
    if forms:
        each = [
            " and ".join(_said(inner, list(inner.relative_path)) for inner in form[:MAX_SAID])
            for form in forms[:MAX_SAID]
        ]
        text = f"{_short(problem.instance)} has none of the allowed forms: {', or '.join(each)}"
        text = text if len(text) <= 1_000 else f"{text[:1_000]}…"
    else:
        text = problem.message if len(problem.message) <= 300 else f"{problem.message[:300]}…"
    return f"{_place(at)}: {text}" if at else text


def _place(path: Sequence[str | int]) -> str:
    steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return steps.removeprefix(".")


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _kind(value: object) -> str:
    names = {list: "a list", str: "a text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), type(value).__name__)
