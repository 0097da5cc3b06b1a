"""Arguments against schemas: what unions, patterns and whole numbers make of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents.actions import read_actions
from asymspec_agents.errors import ActionError


def tool_of(schema: dict[str, Any]) -> dict[str, Any]:
    parameters = {"type": "object", "properties": {"x": schema}}
    return {"type": "function", "function": {"name": "f", "parameters": parameters}}


COUNTS = {"type": "object", "additionalProperties": {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "given", "taken"),
    [
        ({"type": "integer"}, 900.0, 900),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, 900.0, 900),
        ({"anyOf": [COUNTS, {"type": "null"}]}, {"a": "1", "b": 2.0}, {"a": 1, "b": 2}),
        (
            {"anyOf": [{"type": "array", "items": {"anyOf": [COUNTS, {"type": "null"}]}}]},
            [{"a": "1"}],
            [{"a": 1}],
        ),
    ],
)
def test_values_inside_of_unions_are_converted(schema: dict[str, Any], given: Any, taken: Any) -> None:
    text = json.dumps({"name": "f", "arguments": {"x": given}})
    (action,) = read_actions(text, [tool_of(schema)])
    assert json.dumps(action.arguments["x"]) == json.dumps(taken)
    assert all("was taken as" in said for said in action.changes)
    assert action.changes


def test_a_unions_error_names_what_each_form_wants() -> None:
    schema = {"oneOf": [{"properties": {"k": {"const": "a"}}}, COUNTS]}
    with pytest.raises(ActionError, match="k: 'a' was expected, or k: 'b' is not of type 'integer'"):
        read_actions('{"name": "f", "arguments": {"x": {"k": "b"}}}', [tool_of(schema)])


@pytest.mark.parametrize(("value", "fits"), [("a" * 40 + "!", False), ("a b " * 20, True)])
def test_a_pattern_takes_no_exponential_time(value: str, fits: bool) -> None:
    """Python's own engine needs years for the first."""
    text = json.dumps({"name": "f", "arguments": {"x": value}})
    tool = tool_of({"type": "string", "pattern": r"^(\w+\s?)*$"})
    if fits:
        assert read_actions(text, [tool])[0].arguments == {"x": value}
        return
    with pytest.raises(ActionError, match="does not match"):
        read_actions(text, [tool])


def test_a_pattern_that_looks_around_is_checked() -> None:
    tool = tool_of({"type": "string", "pattern": r"^(?!b)a"})
    assert read_actions('{"name": "f", "arguments": {"x": "ab"}}', [tool])
    with pytest.raises(ActionError, match="does not match"):
        read_actions('{"name": "f", "arguments": {"x": "ba"}}', [tool])
