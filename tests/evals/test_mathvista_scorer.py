"""MathVista's rules: golden cases, properties, and the same results as a copy of the official script."""

from __future__ import annotations

import itertools
import random
import types
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.scorers.mathvista import Problem, extract, normalised
from evals.scorers.mathvista_prompts import extraction_prompt, query_of
from tests.evals.references import load_module, references_folder


def choice(*choices: str) -> Problem:
    return Problem("Which?", "multi_choice", "text", choices)


def free(answer_type: str, precision: int | None = None) -> Problem:
    return Problem("How much?", "free_form", answer_type, (), precision)


FISH = choice("cod", "carp", "catfish", "pike")
INTEGER, LIST = free("integer"), free("list")

NORMAL = [
    # A letter, in brackets or bare, is its choice.
    ("B", FISH, "carp"),
    ("(B)", FISH, "carp"),
    (" (b) carp ", FISH, "carp"),
    ("It is (D), not (A).", FISH, "pike"),
    ("cod", FISH, "cod"),
    # Anything else is the nearest choice, the first of equally near ones.
    ("b", FISH, "cod"),
    ("E", FISH, "cod"),
    ("(Z)", FISH, "cod"),
    ("cat fish", FISH, "catfish"),
    ("B.", FISH, "cod"),
    ("B", choice("C", "B", "A"), "B"),
    ("(C)", choice("C", "B", "A"), "A"),
    ("12", choice("1", "12", "123"), "12"),
    ("2", choice("1", "12", "123"), "1"),
    ("Yes, it is", choice("Yes", "No"), "Yes"),
    ("145°", choice("135°", "145°"), "145°"),
    ("f(x)", choice("g(x)", "f(x)"), "g(x)"),  # upstream too: x is taken for a letter of a choice
    ("x", choice(), None),
    # Nothing is no choice; upstream takes the nearest one, "No".
    ("", choice("Yes", "No"), None),
    (" \n", choice("Yes", "No"), None),
    # Integers are truncated.
    ("14", INTEGER, "14"),
    ("14.9", INTEGER, "14"),
    ("-0.5", INTEGER, "0"),
    ("1e3", INTEGER, "1000"),
    (" 7 ", INTEGER, "7"),
    ("1_000", INTEGER, "1000"),
    ("1,000", INTEGER, None),
    ("45%", INTEGER, None),
    ("−5", INTEGER, None),  # U+2212
    ("seven", INTEGER, None),
    ("nan", INTEGER, None),
    ("inf", INTEGER, None),
    ("", INTEGER, None),
    # Floats are rounded.
    ("1.25", free("float", 1), "1.2"),
    ("1.26", free("float", 1), "1.3"),
    ("2", free("float", 2), "2.0"),
    ("0.40", free("float", 2), "0.4"),  # so a gold answer 0.40 is never reached, upstream neither
    ("1.7", free("float", None), "2"),
    ("nan", free("float", 1), None),  # upstream: equal to a gold answer "nan"
    ("-inf", free("float", 1), None),
    ("$2.15", free("float", 2), None),
    ("", free("float", 1), None),
    # Lists and texts stay as they are.
    ("[1, 2]", LIST, "[1, 2]"),
    ("[1,2]", LIST, "[1,2]"),
    ("", LIST, None),
    ("a text", free("text"), "a text"),
]


@pytest.mark.parametrize(("extraction", "problem", "expected"), NORMAL)
def test_normal_forms(extraction: str, problem: Problem, expected: str | None) -> None:
    assert normalised(extraction, problem) == expected


EXTRACTED = [
    ("carp", FISH, "carp", "choice"),
    (" carp\n", FISH, "carp", "choice"),
    ("14", INTEGER, "14", "number"),
    ("-3", INTEGER, "-3", "number"),
    ("1.50", free("float", 1), "1.5", "number"),
    ("7", free("float", 1), "7.0", "number"),
    ('Hm. The answer is "carp". Sure.', FISH, "carp", "phrase"),
    ('The answer is "14".', INTEGER, "14", "phrase"),
    # Our own rules, for the last line where there is no judge.
    ("B", FISH, "(B)", "last_line"),
    ("(B)", FISH, "(B)", "last_line"),
    ("A is wrong, (C) as well.\nAnswer: B", FISH, "(B)", "last_line"),
    ("**Answer:** (B) carp.", FISH, "(B)", "last_line"),
    ("So the answer is B.", FISH, "(B)", "last_line"),
    ("option c) catfish", FISH, "(C)", "last_line"),
    ("The answer is pike.", FISH, "pike", "last_line"),
    ("答案：D", FISH, "(D)", "last_line"),
    ("故选：A。", FISH, "(A)", "last_line"),
    ("E", FISH, "", "none"),
    ("(A) or (B)", FISH, "", "none"),
    ("(B) carp, as its fins are small", FISH, "(B)", "last_line"),
    ("(B) catfish", FISH, "", "none"),
    ("I cannot see an image.", FISH, "", "none"),
    ("3 + 4 makes seven.\nAnswer: 7 boats", INTEGER, "7", "last_line"),
    ("The total is 1,250.", INTEGER, "1250", "last_line"),
    ("= −5", INTEGER, "-5", "last_line"),
    ("between 3 and 4", INTEGER, "", "none"),
    ("It is $2.15.", free("float", 2), "2.15", "last_line"),
    ("about 45%", free("float", 1), "45", "last_line"),
    ("The years are [1996, 2003].", LIST, "[1996, 2003]", "last_line"),
    ("1996 and 2003", LIST, "", "none"),
    ("Answer: a text", free("text"), "a text", "last_line"),
    ("", FISH, "", "empty"),
    (" \n ", INTEGER, "", "empty"),
]


@pytest.mark.parametrize(("response", "problem", "text", "method"), EXTRACTED)
def test_extractions_without_a_judge(response: str, problem: Problem, text: str, method: str) -> None:
    extraction = extract(response, problem)
    assert extraction.method == method
    assert extraction.text == text


def test_a_judge_is_asked_only_where_no_rule_reads_the_response() -> None:
    asked: list[str] = []

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return "Extracted answer: B\n"

    for response, problem, text, method in EXTRACTED:
        extraction = extract(response, problem, ask)
        if method in ("last_line", "none"):
            assert (extraction.text, extraction.method) == ("B", "judge")
            assert asked.pop() == extraction_prompt(problem.query, response.strip())
        else:
            assert (extraction.text, extraction.method) == (text, method)
    assert not asked


def test_a_judge_that_finds_nothing_gives_no_answer() -> None:
    extraction = extract("I cannot see an image.", choice("Yes", "No"), lambda prompt: " ")
    assert extraction.text == ""
    assert normalised(extraction.text, choice("Yes", "No")) is None


def test_the_judges_prompt_shows_five_kinds_of_answers() -> None:
    prompt = extraction_prompt("Question: How many?", "Nine.")
    assert prompt.endswith("Question: How many?\n\nModel response: Nine.\n\nExtracted answer:")
    assert prompt.count("Model response: ") == 6
    assert "(C) 85°." in prompt


HINT = "Hint: Please answer the question"
QUERIES = [
    (
        {"question_type": "multi_choice", "answer_type": "text", "choices": ("a b", "c")},
        f"{HINT} and provide the correct option letter, e.g., A, B, C, D, at the end.\n"
        "Question: Q?\nChoices:\n(A) a b\n(B) c",
    ),
    (
        {"question_type": "free_form", "answer_type": "integer", "unit": "$"},
        f"{HINT} requiring an integer answer and provide the final value, e.g., 1, 2, 3, at the end.\n"
        "Question: Q? (Unit: $)",
    ),
    (
        {"question_type": "free_form", "answer_type": "float", "precision": 2},
        f"{HINT} requiring a floating-point number with two decimal places and provide the final value, "
        "e.g., 1.23, 1.34, 1.45, at the end.\nQuestion: Q?",
    ),
    (
        {"question_type": "free_form", "answer_type": "float", "precision": 3},
        f"{HINT} requiring a floating-point number with 3 decimal places and provide the final value "
        "at the end.\nQuestion: Q?",
    ),
    (
        {"question_type": "free_form", "answer_type": "list"},
        f"{HINT} requiring a Python list as an answer and provide the final list, "
        "e.g., [1, 2, 3], [1.2, 1.3, 1.4], at the end.\nQuestion: Q?",
    ),
    ({"question_type": "free_form", "answer_type": "text"}, "Question: Q?"),
]


@pytest.mark.parametrize(("fields", "query"), QUERIES)
def test_queries(fields: dict[str, Any], query: str) -> None:
    assert query_of("Q?", **fields) == query


problems = st.one_of(
    st.lists(st.text(min_size=1), max_size=5).map(lambda choices: choice(*choices)),
    st.sampled_from([INTEGER, LIST, free("text"), *(free("float", places) for places in (None, 0, 1, 2))]),
)


@given(st.text() | st.from_regex(r"[-+]?[0-9]{0,400}\.?[0-9]*(e[0-9]{1,4})?", fullmatch=True), problems)
def test_any_response_is_scored(response: str, problem: Problem) -> None:
    extraction = extract(response, problem)
    prediction = normalised(extraction.text, problem)
    assert extraction.text or prediction is None
    if prediction is not None and problem.question_type == "multi_choice":
        assert prediction in problem.choices


@given(st.sampled_from(["", " ", "\n"]), problems)
def test_nothing_never_scores(response: str, problem: Problem) -> None:
    assert normalised(extract(response, problem, lambda prompt: "A").text, problem) is None


@pytest.fixture(scope="module")
def official() -> Any:
    """lmms-eval's copy of the official script; the edit distance is that of the package it needs."""
    from rapidfuzz.distance import Levenshtein

    path = "lmms_eval/tasks/mathvista/mathvista_evals.py"
    if not (references_folder() / path).is_file():
        pytest.skip("lmms-eval is not among the reference scorers")
    stub = types.ModuleType("stub")
    for name in ("Request", "ServerConfig", "get_server"):
        setattr(stub, name, lambda *_, **__: None)
    setattr(stub, "distance", Levenshtein.distance)  # noqa: B010
    setattr(stub, "logger", types.SimpleNamespace(info=lambda _: None, error=lambda _: None))  # noqa: B010
    names = ("lmms_eval", "lmms_eval.llm_judge", "Levenshtein", "loguru")
    module = load_module(path, **dict.fromkeys(names, stub))
    return module.MathVistaEvaluator()


def test_golden_normal_forms_hold_upstream(official: Any) -> None:
    compared = 0
    for extraction, problem, expected in NORMAL:
        is_ours = not extraction.strip() or extraction in ("nan", "-inf", "inf") or problem == choice()
        if not is_ours:
            assert _upstream(official, extraction, problem) == expected, (extraction, problem)
            compared += 1
    assert compared > 35


def test_generated_extractions_get_the_same_normal_form(official: Any) -> None:
    draw = random.Random(11)
    words = [
        "cod",
        "carp",
        "cat fish",
        "Yes",
        "No",
        "145°",
        "12",
        "123",
        "1.25",
        "(B)",
        "b",
        "A",
        "f(x)",
        "零",
    ]
    for _ in range(4_000):
        choices = draw.sample(words, k=draw.randint(2, 5))
        number = f"{draw.uniform(-2000, 2000):.{draw.randint(0, 5)}f}"
        extraction = draw.choice(
            [*words, number, f"{draw.choice(words)} {draw.choice(words)}", f"({number})"]
        )
        problem = draw.choice([choice(*choices), INTEGER, LIST, *(free("float", n) for n in (0, 1, 2, 3))])
        assert normalised(extraction, problem) == _upstream(official, extraction, problem)


@given(st.text(min_size=1).filter(str.strip), problems.filter(lambda it: it != choice()))
def test_any_extraction_gets_the_same_normal_form(official: Any, extraction: str, problem: Problem) -> None:
    theirs = _upstream(official, extraction, problem)
    ours = normalised(extraction, problem)
    is_text = problem.question_type == "free_form" and problem.answer_type in ("list", "text")
    if theirs not in ("nan", "inf", "-inf") or is_text:
        assert ours == (theirs.strip() if is_text else theirs)


def test_responses_that_rules_read_are_extracted_the_same(official: Any) -> None:
    for response, problem, text, method in EXTRACTED:
        if method in ("choice", "number", "phrase", "empty"):
            asked = {
                "question_type": problem.question_type,
                "answer_type": problem.answer_type,
                "choices": problem.choices,
                "query": problem.query,
            }
            assert official.extract_answer(response.strip(), asked, quick_extract=True) == text


def test_queries_have_the_official_hints_and_choices(official: Any) -> None:
    """The script of today puts the hint behind the question; its lines are those of the released queries."""
    kinds = [("multi_choice", "text", None), ("free_form", "integer", None), ("free_form", "list", None)]
    kinds += [("free_form", "float", 1), ("free_form", "float", 2)]
    for (question_type, answer_type, precision), unit in itertools.product(kinds, (None, "cm")):
        fields: dict[str, Any] = {
            "question_type": question_type,
            "answer_type": answer_type,
            "precision": precision,
            "unit": unit,
            "choices": ("x", "y") if question_type == "multi_choice" else (),
        }
        problem = {"question": "Q?", "caption": "", "ocr": "", **fields}
        theirs = official.create_one_query(problem, "step-by-step")
        assert sorted(query_of("Q?", **fields).splitlines()) == sorted(theirs.splitlines())


def test_letters_of_gold_answers_are_those_of_another_reader() -> None:
    """inspect-evals scores letters and lines of its own prompt; only the letter of a choice is the same."""
    stub = types.ModuleType("stub")
    names = (
        "AnswerPattern CORRECT INCORRECT ChatMessage ChatMessageUser ContentImage ContentText Generate",
        "Dataset MultipleChoiceTemplate Sample Score Scorer Solver Target Task TaskState hf_dataset",
        "INSPECT_EVALS_CACHE_PATH",
    )
    for name in " ".join(names).split():
        setattr(stub, name, None)
    for name in ("scorer", "stderr"):
        setattr(stub, name, lambda *_, **__: lambda made: made)
    setattr(stub, "accuracy", lambda: None)  # noqa: B010
    for name in ("solver", "task"):
        setattr(stub, name, lambda made: made)
    version = types.SimpleNamespace(version=None)
    setattr(stub, "load_eval_metadata", lambda _: version)  # noqa: B010
    modules = (
        "inspect_ai inspect_ai.dataset inspect_ai.model inspect_ai.scorer inspect_ai.solver inspect_evals "
    )
    modules += (
        "inspect_evals.constants inspect_evals.metadata inspect_evals.utils inspect_evals.utils.huggingface"
    )
    theirs = load_module("inspect_evals/mathvista/mathvista.py", **dict.fromkeys(modules.split(), stub))
    for gold in FISH.choices:
        letter = theirs.get_multi_choice_as_letter({"choices": FISH.choices, "answer": gold})
        for extraction in (letter, f"({letter})"):
            assert normalised(extraction, FISH) == gold


def _upstream(official: Any, extraction: str, problem: Problem) -> Any:
    return official.normalize_extracted_answer(
        extraction, list(problem.choices), problem.question_type, problem.answer_type, problem.precision
    )
