"""GAIA's rules: golden cases, properties, and the same verdicts as an independent implementation."""

from __future__ import annotations

import random
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.scorers.gaia import final_answer, question_score
from tests.evals.references import load_module

GOLDEN = [
    # A number: units and commas of the answer are dropped.
    ("1000", "1000", True, "number"),
    ("1,000", "1000", True, "number"),
    ("$1,000.00", "1000", True, "number"),
    ("17%", "17", True, "number"),
    (" 17\n", "17", True, "number"),
    ("17.0", "17", True, "number"),
    ("1.7e1", "17", True, "number"),
    ("3 apples", "3", False, "number"),
    ("17 %", "17", True, "number"),
    ("seventeen", "17", False, "number"),
    ("17.01", "17", False, "number"),
    ("€17", "17", False, "number"),
    ("1000", "1_000", True, "number"),
    ("-5", "-5", True, "number"),
    ("−5", "-5", False, "number"),  # U+2212, which Python's float does not read
    ("٣", "3", True, "number"),  # which it does
    ("nan", "nan", False, "number"),
    ("inf", "inf", True, "number"),
    ("Infinity", "inf", True, "number"),
    ("dog", "inf", False, "number"),  # upstream: right, as what is no number counts as infinite
    # A list: everything with a comma or semicolon, in order.
    ("1000", "1,000", False, "list"),
    ("1,000", "1,000", True, "list"),
    ("a; b", "a, b", True, "list"),
    ("b, a", "a, b", False, "list"),
    ("a, b, c", "a, b", False, "list"),
    ("a", "a, b", False, "list"),
    ("A ,B", "a, b", True, "list"),
    ("a., b", "a, b", False, "list"),  # punctuation counts here
    ("$5, 2%", "5, 2", True, "list"),
    ("5.0;2", "5, 2", True, "list"),
    ("five, 2", "5, 2", False, "list"),
    ("sea gull, cod", "seagull, cod", True, "list"),
    (",", "a, b", False, "list"),
    ("nan, 1", "nan, 1", False, "list"),
    # A text: neither whitespace nor punctuation nor case counts.
    ("sea gull", "seagull", True, "text"),
    ("St. Petersburg", "st petersburg", True, "text"),
    ("Don't!", "dont", True, "text"),
    ("the seagull", "seagull", False, "text"),
    ("3", "three", False, "text"),
    ("naïve", "naive", False, "text"),
    ("ÉTÉ", "été", True, "text"),
    ("a\u00a0b", "a b", True, "text"),
    ("dog, cat", "dogcat", True, "text"),
    # Nothing.
    ("", "17", False, "number"),
    ("", "a, b", False, "list"),
    ("", "seagull", False, "text"),
    ("", "?", False, "text"),  # upstream: right
    (" \n", "!", False, "text"),  # upstream: right
    (" ", ",", False, "list"),
    ("", "inf", False, "number"),
    (None, "None", False, "text"),
]


@pytest.mark.parametrize(("answer", "gold", "is_correct", "kind"), GOLDEN)
def test_golden(answer: str | None, gold: str, is_correct: bool, kind: str) -> None:
    verdict = question_score(answer, gold)
    assert (verdict.is_correct, verdict.kind) == (is_correct, kind)


FINAL = [
    ("FINAL ANSWER: 17", "17"),
    ("Thinking.\nFinal answer: sea gull\n", "sea gull"),
    ("FINAL ANSWER: 3\nNo, wait.\nFINAL ANSWER: 4", "4"),
    ("FINAL ANSWER: 4\nFINAL ANSWER:", "4"),  # cut off by the length
    ("FINAL ANSWER:\n\n  a, b\nThat is all.", "a, b"),
    ("**FINAL ANSWER: 17**", "17"),
    ("**FINAL ANSWER:** 17", "17"),
    ("**FINAL ANSWER:**\n17", "17"),
    ("FINAL ANSWER: [17]", "17"),
    ("FINAL ANSWER: [a], [b]", "[a], [b]"),
    ("FINAL ANSWER: []", ""),
    ("final  answer : x: y", "x: y"),
    ("FINAL ANSWER:", ""),
    ("17", "17"),
    (" [17] ", "[17]"),
    ("The final answer is 17", "The final answer is 17"),
    ("", ""),
]


@pytest.mark.parametrize(("response", "answer"), FINAL)
def test_final_answer(response: str, answer: str) -> None:
    assert final_answer(response) == answer


responses = st.text(st.sampled_from("ab1, *[]:\nFINALANSWERfinal answer")) | st.lists(
    st.sampled_from(["FINAL ANSWER:", "final answer:", "**", "[", "]", "\n", " ", "17", "a, b", "FINAL"])
).map("".join)


@given(responses)
def test_the_answer_of_an_answer_is_itself(response: str) -> None:
    answer = final_answer(response)
    assert final_answer(answer) == answer


@given(st.text(), st.sampled_from(["", " ", "\n\t", "\u00a0"]))
def test_nothing_never_scores(gold: str, answer: str) -> None:
    assert not question_score(answer, gold).is_correct


@given(st.text(min_size=1).filter(str.strip))
def test_the_gold_answer_is_right_where_it_can_be(gold: str) -> None:
    verdict = question_score(gold, gold)
    has_nan = "nan" in gold.lower()
    assert verdict.is_correct or has_nan


@given(st.integers(-(10**9), 10**9))
def test_a_number_with_separators_equals_the_plain_one(number: int) -> None:
    assert question_score(f"${number:,}", str(number)).is_correct


@pytest.fixture(scope="module")
def official() -> Any:
    """inspect-evals' copy of the leaderboard's scorer, without what it needs of inspect_ai."""
    names = ("CORRECT", "INCORRECT", "Score", "Scorer", "Target", "TaskState", "accuracy", "stderr")
    stub = types.ModuleType("inspect_ai")
    for name in names:
        setattr(stub, name, lambda *_: None)
    setattr(stub, "scorer", lambda **_: lambda made: made)  # noqa: B010
    stubbed = {"inspect_ai": stub, "inspect_ai.scorer": stub, "inspect_ai.solver": stub}
    return load_module("inspect_evals/gaia/scorer.py", **stubbed)


def _is_compared(answer: str, gold: str) -> bool:
    """Where the two differ on purpose: empty answers, and infinite golds for what is no number."""
    return bool(answer.strip()) and "inf" not in gold.lower()


def test_golden_cases_hold_upstream(official: Any) -> None:
    compared = 0
    for answer, gold, is_correct, _ in GOLDEN:
        if answer is not None and _is_compared(answer, gold):
            assert official.question_scorer(answer, gold)[0] is is_correct, (answer, gold)
            compared += 1
    assert compared >= 40


def test_generated_pairs_get_the_same_verdict(official: Any) -> None:
    draw = random.Random(7)
    right = 0
    for _ in range(6_000):
        gold = _gold(draw)
        answer = _variant(draw, gold if draw.random() < 0.8 else _gold(draw))
        if _is_compared(answer, gold):
            ours = question_score(answer, gold).is_correct
            assert official.question_scorer(answer, gold)[0] is ours, (answer, gold)
            right += ours
    assert 1_000 < right < 5_000


@given(st.text(), st.text())
def test_any_texts_get_the_same_verdict(official: Any, answer: str, gold: str) -> None:
    if _is_compared(answer, gold):
        assert official.question_scorer(answer, gold)[0] is question_score(answer, gold).is_correct


def _gold(draw: random.Random) -> str:
    words = [
        "seagull",
        "St. Paul",
        "Ünï",
        "3 apples",
        "0.5",
        "-7",
        "1_000",
        "1e3",
        "1,000",
        "nan",
        "a/b",
        "42",
    ]
    if draw.random() < 0.5:
        return draw.choice(words)
    return draw.choice([", ", ",", "; ", " ;"]).join(draw.choices(words, k=draw.randint(2, 4)))


def _variant(draw: random.Random, text: str) -> str:
    changes = [
        lambda t: t,
        str.upper,
        lambda t: f" {t} ",
        lambda t: t.replace(" ", ""),
        lambda t: t.replace(",", ";"),
        lambda t: f"${t}",
        lambda t: f"{t}%",
        lambda t: f"{t}.",
        lambda t: t + "x",
        lambda t: ", ".join(reversed(t.split(", "))),
        lambda t: t.replace("-", "−"),
        lambda t: f"{t},",
    ]
    for change in draw.choices(changes, k=draw.randint(0, 2)):
        text = change(text)
    return text
