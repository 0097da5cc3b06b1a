"""Whether calls are those BFCL allows: names, parameters and values, in any order.

Source: the AST checker of bfcl-eval 2026.3.23 (see `bfcl_values`), its categories simple, multiple and
parallel. There must be as many calls as expected ones. Each expected call, in order, takes the first call not
taken yet that satisfies it, so the order of the calls does not matter. (A call that would satisfy two
expected ones goes to the first, even where the second then goes without: so does the official checker.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from asymspec_agents.errors import ConfigurationError

from .bfcl_values import PYTHON_TYPES, value_problem
from .calls import WrittenCall

__all__ = ["Verdict", "check_calls", "check_documented", "tool_name"]

Expected = Mapping[str, Mapping[str, Sequence[Any]]]
"""An expected call: the function's name to each parameter's allowed values; "" means it may be missing."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether the calls are right; else what is wrong, with one parameter where `parameter` says so."""

    is_right: bool
    error: str | None = None
    parameter: str | None = None


RIGHT = Verdict(True)


def tool_name(function: str) -> str:
    """The name as a tool has it: tools' names may have no dots, which become underscores (as officially)."""
    return function.replace(".", "_")


def check_calls(
    functions: Sequence[Mapping[str, Any]], calls: Sequence[WrittenCall], expected: Sequence[Expected]
) -> Verdict:
    """The verdict on all calls. `functions` is BFCL's documentation; calls name tools (`tool_name`).

    Errors: no_call, wrong_count, unreadable_arguments, wrong_name, missing_required, unexpected_parameter,
    wrong_type, wrong_value, missing_parameter. Where several calls are expected, the error is that of the
    last call tried for the first expected one that none satisfies.
    """
    if not calls:
        return Verdict(False, "no_call")
    if len(calls) != len(expected):
        return Verdict(False, "wrong_count")
    left = list(calls)
    for one in expected:
        verdict = RIGHT
        for place, call in enumerate(left):
            verdict = _check_call(functions, call, one)
            if verdict.is_right:
                del left[place]
                break
        if not verdict.is_right:
            return verdict
    return RIGHT


def _check_call(functions: Sequence[Mapping[str, Any]], call: WrittenCall, expected: Expected) -> Verdict:
    ((name, allowed),) = expected.items()
    if call.name != tool_name(name):
        return Verdict(False, "wrong_name")
    if call.arguments is None:
        return Verdict(False, "unreadable_arguments")
    documented = next(one["parameters"] for one in functions if one["name"] == name)
    properties = documented.get("properties", {})
    for parameter in documented.get("required", ()):
        if parameter not in call.arguments:
            return Verdict(False, "missing_required", parameter)
    for parameter, value in call.arguments.items():
        if parameter not in properties or parameter not in allowed:
            return Verdict(False, "unexpected_parameter", parameter)
        problem = value_problem(value, properties[parameter], allowed[parameter])
        if problem:
            return Verdict(False, problem, parameter)
    for parameter, values in allowed.items():
        if parameter not in call.arguments and "" not in values:
            return Verdict(False, "missing_parameter", parameter)
    return RIGHT


def check_documented(
    functions: Sequence[Mapping[str, Any]], expected: Sequence[Expected], place: str
) -> None:
    """Raises ConfigurationError, naming the place, for expected calls that cannot be judged.

    That is: no call at all, a call of a function that is not documented, a parameter of unknown type.
    """
    if not expected:
        raise ConfigurationError(f"{place}: ground_truth has no call; a question needs at least one")
    for one in expected:
        if len(one) != 1:
            raise ConfigurationError(
                f"{place}: a ground_truth item names {len(one)} functions instead of one"
            )
        ((name, allowed),) = one.items()
        found = [function for function in functions if function.get("name") == name]
        if not found:
            raise ConfigurationError(
                f"{place}: ground_truth calls {name!r}, which `function` does not describe"
            )
        properties = found[0]["parameters"].get("properties", {})
        for parameter in allowed:
            schema = properties.get(parameter)
            types = [] if schema is None else [schema.get("type")]
            if types and types[0] in ("array", "tuple"):
                types.append(schema.get("items", {}).get("type"))
            unknown = [kind for kind in types if kind not in PYTHON_TYPES]
            if unknown:
                raise ConfigurationError(
                    f"{place}: parameter {parameter!r} of {name!r} has type {unknown[0]!r}; "
                    f"known: {', '.join(PYTHON_TYPES)}"
                )
