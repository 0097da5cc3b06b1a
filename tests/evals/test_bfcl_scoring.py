"""BFCL's rules: a golden table of verdicts, and verdict by verdict beside the official checkers."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.errors import ConfigurationError
from evals.scorers.bfcl_calls import check_calls, check_documented
from evals.scorers.bfcl_memory import mentions
from evals.scorers.bfcl_values import standardised, value_problem
from evals.scorers.calls import WrittenCall
from tests.evals.bfcl_mutations import mutated, rendered
from tests.evals.bfcl_official import official_mentions, official_verdict
from tests.evals.made_tools import FUNCTIONS

STRING: dict[str, Any] = {"type": "string"}
STRINGS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
FLOATS: dict[str, Any] = {"type": "array", "items": {"type": "float"}}
DICTS: dict[str, Any] = {"type": "array", "items": {"type": "dict"}}
TYPE, VALUE = "wrong_type", "wrong_value"

# documentation, value, allowed values, problem
VALUES: list[tuple[dict[str, Any], Any, list[Any], str | None]] = [
    (STRING, "April 1, 2024", ["april 1 2024"], None),
    (STRING, "New-York/USA_*^.", ["new york usa"], None),
    (STRING, "it's", ['it"s'], None),
    (STRING, "a:b", ["ab"], VALUE),
    (STRING, "Zürich", ["ZÜRICH"], None),
    (STRING, "x\ty", ["xy"], VALUE),  # only spaces are ignored
    (STRING, 5, ["5"], TYPE),
    (STRING, None, ["x"], TYPE),
    (STRING, "", ["", "x"], None),  # an empty text is the sign for a missing one
    (STRING, 5, [5, "5"], None),  # the allowed values' own type passes, as a variable's value
    (STRING, "5", [5, "5"], None),
    ({"type": "any"}, "x", ["x"], None),
    ({"type": "integer"}, 5, [5], None),
    ({"type": "integer"}, 5.0, [5], TYPE),
    ({"type": "integer"}, "5", [5], TYPE),
    ({"type": "integer"}, True, [1], TYPE),
    ({"type": "integer"}, 0, [0, ""], None),
    ({"type": "float"}, 5, [5.0], None),
    ({"type": "float"}, True, [1.0], TYPE),
    ({"type": "float"}, 0.1 + 0.2, [0.3], VALUE),
    ({"type": "float"}, 5, [5], None),
    ({"type": "boolean"}, True, [True], None),
    ({"type": "boolean"}, False, [True], VALUE),
    ({"type": "boolean"}, "true", [True], TYPE),
    ({"type": "boolean"}, 1, [True], TYPE),
    (STRINGS, ["A. b", "c"], [["ab", "C"]], None),
    (STRINGS, ["c", "ab"], [["ab", "c"]], VALUE),
    (STRINGS, "ab", [["ab"]], TYPE),
    (STRINGS, [1], [["ab"]], TYPE),
    (STRINGS, [], [[]], None),
    (STRINGS, [], [["a"], ""], None),  # the checker takes "" for a list without items
    (STRINGS, [], [["a"]], VALUE),
    (FLOATS, [1, 2.0], [[1.0, 2.0]], TYPE),  # whole numbers are floats only outside of lists
    (FLOATS, [1.0, 2.0], [[1.0, 2.0]], None),
    ({"type": "tuple", "items": {"type": "float"}}, [1.5, 2.5], [[1.5, 2.5]], None),
    ({"type": "dict"}, {"a": "X y"}, [{"a": ["xy"], "b": [1, ""]}], None),
    ({"type": "dict"}, {"a": "x"}, [{"a": ["x"], "b": [1]}], VALUE),
    ({"type": "dict"}, {"a": "x", "c": 1}, [{"a": ["x"]}], VALUE),
    ({"type": "dict"}, {"a": True}, [{"a": [1]}], None),  # types within dictionaries are not compared
    ({"type": "dict"}, {}, [""], VALUE),
    ({"type": "dict"}, [], [{"a": [1]}], TYPE),
    ({"type": "dict"}, {"a": 1}, [{"b": [1]}, {"a": [1]}], None),
    (DICTS, [{"a": 1}, {"a": 2}], [[{"a": [1]}, {"a": [2]}]], None),
    (DICTS, [{"a": 2}, {"a": 1}], [[{"a": [1]}, {"a": [2]}]], VALUE),
    (DICTS, [{"a": 1}], [[{"a": [1]}, {"a": [2]}]], VALUE),
    (DICTS, [], ["", [{"a": [1]}]], None),
]


@pytest.mark.parametrize(("documented", "value", "allowed", "problem"), VALUES)
def test_values(documented: dict[str, Any], value: Any, allowed: list[Any], problem: str | None) -> None:
    assert value_problem(value, documented, allowed) == problem


def _functions(documented: dict[str, Any]) -> list[dict[str, Any]]:
    parameters = {"type": "dict", "properties": {"p": documented}, "required": ["p"]}
    return [{"name": "f", "parameters": parameters}]


@pytest.mark.parametrize(("documented", "value", "allowed", "problem"), VALUES)
def test_values_beside_the_official_checker(
    documented: dict[str, Any], value: Any, allowed: list[Any], problem: str | None
) -> None:
    verdict = official_verdict(
        "simple", _functions(documented), [{"f": {"p": value}}], [{"f": {"p": allowed}}]
    )
    assert verdict is (problem is None)


# Allowed values in forms on which the official checker ends with an exception: they match nothing.
BROKEN: list[tuple[dict[str, Any], Any, list[Any]]] = [
    ({"type": "dict"}, {"a": 1}, ["text"]),
    ({"type": "dict"}, {"a": 1}, [{"a": 1}]),
    (STRINGS, ["a"], [["a"], 5]),
    (DICTS, [{"a": 1}], [5]),
]


@pytest.mark.parametrize(("documented", "value", "allowed"), BROKEN[:2])
def test_broken_allowed_values_match_nothing(
    documented: dict[str, Any], value: Any, allowed: list[Any]
) -> None:
    assert value_problem(value, documented, allowed) is not None
    verdict = official_verdict(
        "simple", _functions(documented), [{"f": {"p": value}}], [{"f": {"p": allowed}}]
    )
    assert verdict is not True


@pytest.mark.parametrize(("documented", "value", "allowed"), BROKEN[2:])
def test_broken_allowed_values_raise_nothing(
    documented: dict[str, Any], value: Any, allowed: list[Any]
) -> None:
    assert value_problem(value, documented, allowed) in (None, "wrong_value", "wrong_type")


WATER = {"garden.water": {"bed": ["roses", "rose bed"], "litres": [4.5], "minutes": [3, ""], "note": ["x"]}}
RIGHT = {"bed": "Rose bed", "litres": 4.5, "note": "x"}
HARVEST = {"harvest": {"bed": ["beans"]}}


@pytest.mark.parametrize(
    ("calls", "expected", "error"),
    [
        ([("garden_water", RIGHT)], [WATER], None),
        ([("garden_water", {**RIGHT, "minutes": 3})], [WATER], None),
        ([("garden.water", RIGHT)], [WATER], "wrong_name"),
        ([], [WATER], "no_call"),
        ([("garden_water", RIGHT)] * 2, [WATER], "wrong_count"),
        ([("garden_water", None)], [WATER], "unreadable_arguments"),
        ([("garden_water", {"bed": "roses", "note": "x"})], [WATER], "missing_required"),
        ([("garden_water", {"bed": "roses", "litres": 4.5})], [WATER], "missing_parameter"),
        ([("garden_water", {**RIGHT, "colour": "red"})], [WATER], "unexpected_parameter"),
        ([("garden_water", {**RIGHT, "is_warm": False})], [WATER], "unexpected_parameter"),
        ([("garden_water", {**RIGHT, "litres": "4.5"})], [WATER], "wrong_type"),
        ([("garden_water", {**RIGHT, "litres": 4})], [WATER], "wrong_value"),
        ([("harvest", {"bed": "beans"}), ("garden_water", RIGHT)], [WATER, HARVEST], None),
        ([("harvest", {"bed": "beans"})] * 2, [WATER, HARVEST], "wrong_name"),
        ([("harvest", {"bed": "beans"})] * 2, [HARVEST, HARVEST], None),
        ([("garden_water", RIGHT)], [WATER, HARVEST], "wrong_count"),
    ],
)
def test_calls(
    calls: list[tuple[str, dict[str, Any] | None]], expected: list[dict[str, Any]], error: str | None
) -> None:
    verdict = check_calls(FUNCTIONS, [WrittenCall(*one) for one in calls], expected)
    assert (verdict.is_right, verdict.error) == (error is None, error)


def test_the_first_expected_call_takes_what_satisfies_it_as_officially() -> None:
    either, beans = {"harvest": {"bed": ["beans", "peas"]}}, HARVEST
    answer = [{"harvest": {"bed": "beans"}}, {"harvest": {"bed": "peas"}}]
    calls = [WrittenCall("harvest", one["harvest"]) for one in answer]
    assert check_calls(FUNCTIONS, calls, [beans, either]).is_right
    assert not check_calls(FUNCTIONS, calls, [either, beans]).is_right
    assert official_verdict("parallel", FUNCTIONS, answer, [either, beans]) is False


def test_equal_looking_calls_are_told_apart() -> None:
    expected = [{"f": {"p": [True]}}, {"f": {"p": [1]}}]
    functions = [{"name": "f", "parameters": {"properties": {"p": {"type": "any"}}, "required": []}}]
    calls = [WrittenCall("f", {"p": 1}), WrittenCall("f", {"p": True})]
    assert check_calls(functions, calls, expected).is_right


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ([], "no call"),
        ([{"dig": {}}], "'dig'"),
        ([{"harvest": {}, "dig": {}}], "2 functions"),
    ],
)
def test_what_cannot_be_judged_is_refused(expected: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        check_documented(FUNCTIONS, expected, "question 'q'")


@pytest.mark.parametrize("documented", [{"type": "Bigint"}, {}, {"type": "array", "items": {"type": "Long"}}])
def test_types_that_are_none_of_pythons_are_refused(documented: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="parameter 'p' of 'f'"):
        check_documented(_functions(documented), [{"f": {"p": ["x"]}}], "question 'q'")


TIMERS = [{"start": ["8 am"], "days": [2, ""]}, ""]
STEPS = [[{"valve": [1, 2]}, {"valve": [3]}]]
MADE = [
    [{"garden.water": {**WATER["garden.water"], "is_warm": [True], "plants": [["iris", "a-b"], ""]}}],
    [{"garden.water": {"bed": ["x"], "litres": [1.0, 2], "spot": [[1.5, 2.0]], "timer": TIMERS}}],
    [{"garden.water": {"bed": ["x"], "litres": [0.5], "steps": STEPS, "note": [7, ""]}}],
    [HARVEST, {"harvest": {"bed": ["peas", "beans"]}}, WATER],
]


@pytest.mark.parametrize("number", range(len(MADE)))
def test_thousands_of_near_answers_beside_the_official_checker(number: int) -> None:
    rng, expected = Random(number), MADE[number]
    category = "parallel" if len(expected) > 1 else "multiple"
    num_right = 0
    for trial in range(1_500):
        calls = rendered(expected, rng)
        if trial % 10:
            calls = mutated(calls, rng)
        ours = check_calls(FUNCTIONS, [WrittenCall(*one) for call in calls for one in call.items()], expected)
        theirs = official_verdict(category, FUNCTIONS, calls, expected)
        assert ours.is_right is (theirs or False), (calls, ours, theirs)
        num_right += ours.is_right
    assert 50 < num_right < 1_000  # both verdicts occur often


MENTIONS: list[tuple[str, list[str], bool]] = [
    ("Michael", ["Michael"], True),
    ("Your name is MICHAEL.", ["Michael"], True),
    ("Michaela", ["Michael"], False),
    ("It is 3-5 (about).", ["35"], True),
    ("135", ["35"], False),
    ("thirty  five", ["thirty five"], False),  # white space counts
    ("thirty five", ["35", "thirty five"], True),
    ("O'Neill", ['O"Neill'], True),
    ("", [""], False),
    (" \n", ["x"], False),
    ("...", ["x"], False),
    ("I do not know", ["no"], False),
    ("costs $5", ["$5"], False),  # no word boundary before the sign, as officially
    ("Besançon", ["besançon"], True),
    ("a+b", ["a+b"], True),
    ("a1b", ["a.b"], False),
]


@pytest.mark.parametrize(("answer", "allowed", "is_right"), MENTIONS)
def test_mentions(answer: str, allowed: list[str], is_right: bool) -> None:
    assert mentions(answer, allowed) is is_right


@pytest.mark.parametrize(("answer", "allowed", "is_right"), MENTIONS)
def test_mentions_beside_the_official_table(answer: str, allowed: list[str], is_right: bool) -> None:
    assert official_mentions(answer, allowed) is is_right


WORDS = st.text(st.sampled_from("ab1 .,-_()'\"$é\n"), max_size=8)


@given(WORDS, st.lists(WORDS, min_size=1, max_size=2))
def test_mentions_beside_the_official_checker(answer: str, allowed: list[str]) -> None:
    assert mentions(answer, allowed) is official_mentions(answer, allowed) or not answer.strip(" ,./-_*^()\n")


@given(st.text())
def test_standardised_twice_is_standardised(text: str) -> None:
    assert standardised(standardised(text)) == standardised(text)
