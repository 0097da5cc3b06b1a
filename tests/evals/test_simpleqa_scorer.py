"""SimpleQA's grades and aggregates: golden tables, and two other packages beside them."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evals.prompts import prompt_named
from evals.scorers.simpleqa import GRADES, Grade, aggregate, paper_grade, strict_grade
from tests.evals.references import load_module, stub

A: Grade = "correct"
B: Grade = "incorrect"
C: Grade = "not_attempted"

# A grader's reply, the strict grade (None: no grade), the official parse's.
GOLDEN: list[tuple[str, Grade | None, Grade]] = [
    ("A", A, A),
    ("B\n", B, B),
    (" C.", C, C),
    ('"B"', B, B),
    ("**A**", A, A),
    ("(C)", C, C),
    ("Grade: B", B, B),
    ("B: INCORRECT", B, B),
    ("CORRECT", A, C),  # the official parse finds the C of the word
    ("INCORRECT", B, C),
    ("NOT_ATTEMPTED", C, A),  # and here the A
    ("NOT ATTEMPTED", C, A),
    ("The grade is INCORRECT.", B, C),
    ("A careful look says INCORRECT", B, A),  # an article, not a grade
    ("A correct answer, so: A", A, A),  # no grade in capitals: the first letter is as good as the last
    ("No Answer", None, A),
    ("Because it matches", None, B),
    ("It is CORRECT, not INCORRECT", None, C),  # two grades
    ("It is NOT CORRECT", None, C),
    ("correct", None, C),
    ("a", None, C),
    ("", None, C),
    ("ABC", None, A),
    ("GRADE_A", None, A),  # an underscore is part of a word
    ("Ä B", B, B),
]


@pytest.mark.parametrize(("reply", "strict", "paper"), GOLDEN)
def test_golden(reply: str, strict: Grade | None, paper: Grade) -> None:
    assert (strict_grade(reply), paper_grade(reply)) == (strict, paper)


@given(st.text(st.sampled_from("ABC abc.\n*:NOT_ICRE"), max_size=12))
def test_a_strict_grade_stands_alone_in_the_reply(reply: str) -> None:
    grade = strict_grade(reply)
    if grade is not None:
        letter = "ABC"[GRADES.index(grade)]
        words = reply.replace("*", " ").replace(".", " ").replace(":", " ").split()
        assert letter in words or any(word in reply for word in ("CORRECT", "ATTEMPTED"))


def test_aggregates_by_hand() -> None:
    # 10 questions: 4 right, 3 wrong, 2 not attempted, 1 without a grade.
    found = aggregate([A, A, A, A, B, B, B, C, C, None])
    assert (found.correct, found.incorrect, found.not_attempted, found.ungraded) == (0.4, 0.3, 0.2, 0.1)
    assert found.accuracy_given_attempted == pytest.approx(4 / 7)
    assert found.f == pytest.approx(2 * 0.4 * (4 / 7) / (0.4 + 4 / 7))


@pytest.mark.parametrize("grades", [[], [C], [B], [None], [B, C, None]])
def test_nothing_right_is_0_and_no_error(grades: list[Grade | None]) -> None:
    found = aggregate(grades)
    assert (found.correct, found.accuracy_given_attempted, found.f) == (0, 0, 0)


@pytest.fixture(scope="module")
def opencompass() -> Any:
    class Registry:
        def register_module(self) -> Any:
            return lambda kind: kind

    return load_module(
        "opencompass/datasets/simpleqa.py",
        **{
            "pandas": stub("pandas"),
            "datasets": stub("datasets", Dataset=None, DatasetDict=None),
            "opencompass.registry": stub("registry", LOAD_DATASET=Registry()),
            "opencompass.utils": stub("utils", get_data_path=None),
            "opencompass.datasets.base": stub("base", BaseDataset=object),
        },
    )


@given(st.lists(st.sampled_from([row[0] for row in GOLDEN]) | st.text(max_size=8), min_size=1, max_size=9))
def test_the_paper_parse_and_the_aggregates_are_opencompass_s(opencompass: Any, replies: list[str]) -> None:
    theirs = opencompass.get_final_results(replies, replies, replies)
    ours = aggregate([paper_grade(reply) for reply in replies])
    assert 100 * ours.correct == pytest.approx(theirs["accuracy"])
    assert 100 * ours.accuracy_given_attempted == pytest.approx(theirs["accuracy_given_attempted"])
    assert ours.f == pytest.approx(theirs["f1"])


class InspectEvals:
    """inspect_evals' original scorer, with a grader that gives the reply it is told."""

    def __init__(self) -> None:
        self.reply = ""
        self.prompt = ""
        scorers = stub(
            "scorer",
            CORRECT="C",
            INCORRECT="I",
            NOANSWER="N",
            Metric=None,
            SampleScore=None,
            Score=lambda **fields: SimpleNamespace(**fields),
            Scorer=None,
            Target=None,
            Value=None,
            metric=lambda function: function,
            scorer=lambda **_: lambda function: function,
        )
        model = stub("model", Model=None, get_model=lambda **_: self)
        self.module = load_module(
            "inspect_evals/simpleqa/scorer.py",
            **{
                "inspect_ai.model": model,
                "inspect_ai.scorer": scorers,
                "inspect_ai.solver": stub("solver", TaskState=None),
                "inspect_evals.utils.scorers": stub("scorers", schema_tool_graded_scorer=None),
            },
        )

    async def generate(self, prompt: str) -> Any:
        self.prompt = prompt
        return SimpleNamespace(completion=self.reply)

    def grade(self, reply: str, mode: str, question: str = "q", gold: str = "g", answer: str = "a") -> Grade:
        self.reply = reply
        score = self.module.simpleqa_scorer(grade_parse=mode)
        output = SimpleNamespace(completion=answer)
        state = SimpleNamespace(input_text=question, output=output)
        value = asyncio.run(score(state, SimpleNamespace(text=gold))).value
        return next(grade for grade in GRADES if value[grade])


@pytest.fixture(scope="module")
def inspect_evals() -> InspectEvals:
    return InspectEvals()


def test_inspect_evals_agrees_wherever_a_letter_stands_alone(inspect_evals: InspectEvals) -> None:
    for reply, strict, paper in GOLDEN:
        assert inspect_evals.grade(reply, "paper") == paper
        theirs = inspect_evals.grade(reply, "strict")
        if strict != theirs:  # it has no words, takes the article, and calls what has no grade not attempted
            assert reply.startswith("A careful") or (strict is None or theirs == "not_attempted")


def test_the_grader_prompt_is_theirs(inspect_evals: InspectEvals) -> None:
    question, gold, answer = "Who {answer}?", "{question}", "It was\n```\nA"
    inspect_evals.grade("A", "strict", question, gold, answer)
    assert inspect_evals.prompt == prompt_named("simpleqa").format(
        question=question, target=gold, answer=answer
    )


def test_the_verified_grader_prompt_is_theirs() -> None:
    templates = load_module("inspect_evals/simpleqa/grader_templates.py")
    fields = {"question": "q", "answer": "a"}
    theirs = templates.SIMPLEQA_VERIFIED_GRADER_TEMPLATE.format(
        criterion="g", instructions=templates.SIMPLEQA_GRADING_INSTRUCTIONS, **fields
    )
    assert prompt_named("simpleqa_verified").format(target="g", **fields) == theirs


def test_inspect_evals_aggregates_alike(inspect_evals: InspectEvals) -> None:
    grades: list[Grade | None] = [A, A, B, C, C, A]
    values = [{grade: float(grade == given) for grade in GRADES} for given in grades]
    scores = [SimpleNamespace(score=SimpleNamespace(as_dict=lambda value=value: value)) for value in values]
    theirs = inspect_evals.module.simpleqa_metric()(scores)
    ours = aggregate(grades)
    assert ours.f == pytest.approx(theirs["f_score"])
    assert ours.accuracy_given_attempted == pytest.approx(theirs["correct_given_attempted"])
