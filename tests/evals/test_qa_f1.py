"""LongBench's F1: a golden table, properties, and the implementation of another package beside it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.scorers.qa_f1 import best_f1, f1, normalized
from tests.evals.references import load_module, stub

# Answer, gold, F1. Worked out by hand: shared words, precision and recall.
GOLDEN = [
    ("Eiffel-Tower", "Eiffel Tower", 0.0),  # one word against two
    ("The", "the", 0.0),  # both normalise to nothing
    ("", "", 0.0),
    ("", "Paris", 0.0),
    (" \n", "Paris", 0.0),
    ("no no no", "no", 0.5),  # 1 shared, precision 1/3, recall 1
    ("yes", "yes, it is", 0.5),  # precision 1, recall 1/3
    ("Paris", "paris.", 1.0),
    ("The Eiffel Tower.", "an eiffel tower", 1.0),
    ("a.b.", "b", 0.0),  # punctuation goes first: "ab"
    ("A. Lincoln", "Lincoln", 1.0),  # "a lincoln": the article goes after the full stop
    ("theatre", "the theatre", 1.0),  # articles are whole words
    ("U.S.A.", "USA", 1.0),
    ("Anna and the King", "King", 0.5),  # anna and king: precision 1/3, recall 1
    ("in 1969", "1969", 2 / 3),
    ("“Paris”", "Paris", 0.0),  # typographic quotes are no ASCII punctuation
    ("Zürich", "ZÜRICH", 1.0),
    ("Curaçao a an the", "curaçao", 1.0),
    ("x x y", "x y y", 2 / 3),  # a multiset: x and y once each
    ("北京", "北京", 1.0),
    ("new\u00a0york", "New York", 1.0),  # a no-break space separates words
]


@pytest.mark.parametrize(("answer", "gold", "expected"), GOLDEN)
def test_golden(answer: str, gold: str, expected: float) -> None:
    assert f1(answer, gold) == pytest.approx(expected, abs=1e-12)


def test_the_best_of_several_answers_counts() -> None:
    assert best_f1("Stanley Hall", ["G. Stanley Hall", "Stanley Hall", "x"]) == 1.0
    assert best_f1("x", []) == 0.0


def test_the_order_of_normalising() -> None:
    assert normalized(" A.  The-end, an 'a' — THE\tLAST ") == "theend — last"


WORDS = st.lists(
    st.sampled_from(["a", "an", "the", "The", " ", "-", ".", "'", "b", "C", "1", "é", "_", "\n", "İ", "ß"]),
    max_size=12,
).map("".join)


@given(WORDS, WORDS)
def test_symmetric_and_within_its_range(answer: str, gold: str) -> None:
    value = f1(answer, gold)
    assert value == f1(gold, answer)
    assert 0 <= value <= 1
    if value == 1:
        assert sorted(normalized(answer).split()) == sorted(normalized(gold).split())


@given(WORDS)
def test_an_answer_agrees_with_itself_unless_nothing_is_left(text: str) -> None:
    assert f1(text, text) == (1.0 if normalized(text) else 0.0)


@pytest.fixture(scope="module")
def reference() -> Any:
    """opencompass's LongBench evaluator."""

    class Registry:
        def register_module(self) -> Any:
            return lambda kind: kind

    return load_module(
        "opencompass/datasets/longbench/evaluators.py",
        **{
            "jieba": stub("jieba"),
            "fuzzywuzzy": stub("fuzzywuzzy", fuzz=None),
            "rouge": stub("rouge", Rouge=None),
            "opencompass.openicl.icl_evaluator": stub("icl_evaluator", BaseEvaluator=object),
            "opencompass.registry": stub("registry", ICL_EVALUATORS=Registry()),
        },
    )


def test_the_reference_agrees_on_the_golden_table(reference: Any) -> None:
    evaluator = reference.LongBenchF1Evaluator()
    for answer, gold, expected in GOLDEN:
        assert evaluator.score([answer], [[gold]])["score"] == pytest.approx(100 * expected, abs=1e-9)


@given(WORDS | st.text(max_size=20), st.lists(WORDS | st.text(max_size=20), max_size=3))
def test_the_reference_agrees_on_any_text(reference: Any, answer: str, golds: list[str]) -> None:
    assert normalized(answer) == reference.normalize_answer(answer)
    score = reference.LongBenchF1Evaluator().score([answer], [golds])["score"]
    assert 100 * best_f1(answer, golds) == pytest.approx(score, abs=1e-9)
