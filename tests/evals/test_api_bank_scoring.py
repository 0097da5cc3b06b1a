"""API-Bank's call match: values, calls in brackets, and the classes of errors."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.scorers.api_call_match import match_call, same_value
from evals.scorers.bracket_calls import read_bracket_call
from evals.scorers.calls import WrittenCall

SAME: list[tuple[Any, Any]] = [
    ("Ann", " Ann\n"),
    ("Ann", "'Ann'"),
    ('"Ann"', "Ann"),
    ("Köln", "Köln"),
    ("2", 2),
    ("2", 2.0),
    ("2.50", 2.5),
    ("-1", -1),
    (2, "2"),
    ("True", True),
    ("false", False),
    (None, None),
    ("['Ann', 'Ben']", ["Ann", "Ben"]),
    ("['Ann', 'Ben']", '["Ann", "Ben"]'),
    ("['Ann', 'Ben']", " [ 'Ann','Ben' ] "),
    ("['Ann', 'Ben']", "\"['Ann', 'Ben']\""),
    (["Ann"], "('Ann',)"),
    ("[{'name': 'pulse', 'value': '80'}]", [{"name": "pulse", "value": "80"}]),
    ("[{'name': 'pulse', 'value': '80'}]", '[{"value": 80, "name": "pulse"}]'),
    ("{'a': [1, {'b': 'x '}]}", {"a": ["1", {"b": "x"}]}),
    ('["O\'Neill"]', ["O'Neill"]),
    ("", "  "),
    ("[", "["),
]
OTHER: list[tuple[Any, Any]] = [
    ("Ann", "ann"),
    ("Ann", "Anna"),
    ("Ann Lee", "Ann  Lee"),
    ("007", 7),
    ("007", "7"),
    ("2", "2.0"),  # both texts, and the parameter is no number
    ("1", True),
    (1, True),
    ("None", None),
    ("", None),
    ("['Ann', 'Ben']", "['Ben', 'Ann']"),
    ("['Ann', 'Ben']", ["Ann"]),
    ("['Ann', 'Ben']", "Ann, Ben"),
    ("[1]", "1"),
    ("{'a': 1}", {"a": 1, "b": 2}),
    ("{'a': 1}", "[1]"),
    ("[", "[]"),
    ("1e400", float("inf")),
    ("inf", float("inf")),
    ("nan", float("nan")),
    (float("nan"), float("nan")),
    ("[" * 9_999, "[" * 9_998),
    ("2023-05-01", "2023-5-1"),
    ("K\u00f6ln", "Ko\u0308ln"),
]


@pytest.mark.parametrize(("expected", "found"), SAME)
def test_values_that_are_the_same(expected: Any, found: Any) -> None:
    assert same_value(expected, found)
    assert same_value(found, expected)


@pytest.mark.parametrize(("expected", "found"), OTHER)
def test_values_that_are_not(expected: Any, found: Any) -> None:
    assert not same_value(expected, found)
    assert not same_value(found, expected)


def test_texts_that_spell_numbers_are_equal_where_a_number_is_documented() -> None:
    assert same_value("2", "2.0", is_number=True)
    assert not same_value("2", "2,0", is_number=True)
    assert not same_value("007", "7", is_number=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=3), one, max_size=3),
    max_leaves=6,
)


@given(JSON)
def test_every_value_is_itself_also_when_written_as_a_text(value: Any) -> None:
    assert same_value(value, value)
    if isinstance(value, list | dict):
        assert same_value(repr(value), value)
        assert same_value(value, json.dumps(value))


@given(JSON, JSON)
def test_sides_may_be_exchanged(left: Any, right: Any) -> None:
    assert same_value(left, right) is same_value(right, left)


BOOK = {"guests": "['Ann', 'Ben']", "count": "2"}
TYPES = {"guests": "list(str)", "count": "int", "note": "str"}


@pytest.mark.parametrize(
    ("name", "arguments", "error", "parameter"),
    [
        ("BookTable", BOOK, None, None),
        (" BookTable ", {"guests": ["Ann", "Ben"], "count": 2}, None, None),
        ("BookTable", {**BOOK, "count": "2.0"}, None, None),
        ("booktable", BOOK, "API_NAME_MISMATCH", None),
        ("", {}, "API_NAME_MISMATCH", None),
        ("BookTable", None, "FAILED_PARSE_API_CALL", None),
        ("BookTable", {"count": "2"}, "MISS_INPUT_ARGUMENT", "guests"),
        ("BookTable", {}, "MISS_INPUT_ARGUMENT", "guests"),
        ("BookTable", {**BOOK, "count": "3"}, "INPUT_MISMATCH", "count"),
        ("BookTable", {**BOOK, "note": ""}, "INPUT_MISMATCH", "note"),
        ("BookTable", {**BOOK, "colour": "red"}, "INVALID_INPUT_PARAMETER", "colour"),
        ("BookTable", {"Guests": "['Ann', 'Ben']", "count": "2"}, "INVALID_INPUT_PARAMETER", "Guests"),
    ],
)
def test_classes_of_errors(
    name: str, arguments: dict[str, Any] | None, error: str | None, parameter: str | None
) -> None:
    match = match_call(WrittenCall(name, arguments), "BookTable", BOOK, TYPES)
    assert (match.is_right, match.error, match.parameter) == (error is None, error, parameter)


def test_an_argument_of_the_dialogue_is_valid_though_it_is_not_documented() -> None:
    wish = {"wish": "window"}
    assert match_call(WrittenCall("BookTable", wish), "BookTable", wish, TYPES).is_right


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("[F()]", {}),
        ("[F(a='x')]", {"a": "x"}),
        ("API-Request: [F(a=\"x\", b='y')]->ok", {"a": "x", "b": "y"}),
        ("[F(a='x')], [G(a='y')]", {"a": "x"}),
        ("[F(a='x'), G(a='y')]", {"a": "x"}),
        ("[F(a=1, b=[1, 'z'], c={'k': None}, d=True)]", {"a": 1, "b": [1, "z"], "c": {"k": None}, "d": True}),
        ("[F(a=\"['Ann', 'Ben']\")]", {"a": "['Ann', 'Ben']"}),
        ("[F(a='['Ann', 'Ben']', b='x')]", {"a": "['Ann', 'Ben']", "b": "x"}),
        ("[F(a='it's (here)]', b='x')]", {"a": "it's (here)]", "b": "x"}),
        ("[F(a='(1 + 2) * 3')]", {"a": "(1 + 2) * 3"}),
        ("[F(a='f(x)], y', b='z')]", {"a": "f(x)], y", "b": "z"}),
        ("[F(a=AAPL, b=2022-01-01 10:00:00)]", {"a": "AAPL", "b": "2022-01-01 10:00:00"}),
        ("[F(a=John, Jane, b=3)]", {"a": "John, Jane", "b": "3"}),
        ("[F(a='x',)]", {"a": "x"}),
        ("[F(\n  a = 'x',\n  b = 'y\nz'\n)]", {"a": "x", "b": "y\nz"}),
        ("[F(a='Köln ✓')]", {"a": "Köln ✓"}),
    ],
)
def test_calls_in_brackets(text: str, arguments: dict[str, Any]) -> None:
    found = read_bracket_call(text)
    assert found is not None
    assert found.call == WrittenCall("F", arguments)


@pytest.mark.parametrize("text", ["", "F(a='x')", "no call", "[1, 2]", "[note] (x)", "[x]"])
def test_text_without_a_call(text: str) -> None:
    assert read_bracket_call(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "[F(a='x'",
        "[F('x')]",
        "[F(a='x', a='y')]",
        "[F(x y)]",
        "[F(" + "a='x'), (" * 3_000,
        "[F(" + "(" * 3_000 + ")]",
        "[F(" + ")]" * 5_000,
    ],
)
def test_what_begins_like_a_call_and_is_none(text: str) -> None:
    found = read_bracket_call(text)
    assert found is not None
    assert found.call is None or found.call.arguments in ({}, {"a": "x"})


PLAIN = st.text(st.characters(categories=("L", "N")), max_size=12)


@given(
    st.dictionaries(
        st.sampled_from(["a", "b_c", "d1"]), st.text(max_size=20) | st.integers() | st.lists(PLAIN)
    )
)
def test_a_call_written_in_python_is_read_exactly(arguments: dict[str, Any]) -> None:
    text = f"[F({', '.join(f'{key}={value!r}' for key, value in arguments.items())})]"
    found = read_bracket_call(text)
    assert found is not None
    assert found.call == WrittenCall("F", arguments)
