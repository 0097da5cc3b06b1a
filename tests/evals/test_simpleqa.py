"""SimpleQA: records of both releases' shapes, grading through a judge, figures by hand."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError
from evals.judging import UnreadableReplyError
from evals.prompts import prompt_named
from evals.records import Failure, Output, Record, Score
from evals.sample import Sample
from evals.suite import Suite
from evals.suites import suite_named
from evals.suites.simpleqa import SHA256, URL
from tests.evals.askers import ScriptedAsker, ScriptedJudge

ROWS = (
    "metadata,problem,answer\r\n"
    "\"{'topic': 'Art', 'answer_type': 'Date', 'urls': ['https://a.invalid']}\",\"In which year, "
    'by ""Aal"", was {gold}?",1969\r\n'
    '"{\'topic\': broken","Who\nsang?",Ødegård\r\n'
    ",What?,B\r\n"
    ",What?,B\r\n"
)
VERIFIED = (
    "original_index,problem,answer,topic,answer_type,multi_step,requires_reasoning,urls\n"
    '7,How high?,"1.73 m (acceptable range: anything between 1.72 m and 1.74 m)",Sport,Number,False,False,x\n'
)


@pytest.fixture
def suite() -> Suite:
    return suite_named("simpleqa")


@pytest.fixture
def samples(suite: Suite, tmp_path: Path) -> list[Sample]:
    path = tmp_path / "simple_qa_test_set.csv"
    path.write_bytes(b"\xef\xbb\xbf" + ROWS.encode())
    return list(suite.load(path))


def test_records(samples: list[Sample]) -> None:
    assert [sample.query for sample in samples] == [
        'In which year, by "Aal", was {gold}?',
        "Who\nsang?",
        "What?",
    ]
    assert [sample.gold for sample in samples] == ["1969", "Ødegård", "B"]
    assert [sample.groups for sample in samples] == [{"topic": "Art", "answer_type": "Date"}, {}, {}]
    first = samples[0]
    assert [message.wire() for message in first.messages] == [{"role": "user", "content": first.query}]
    assert (first.suite, first.long_parts) == ("simpleqa", ())


def test_an_id_depends_on_question_and_answer_only(
    samples: list[Sample], suite: Suite, tmp_path: Path
) -> None:
    (tmp_path / "part.csv").write_text("answer,problem\nB,What?\n")
    (sample,) = suite.load(tmp_path / "part.csv")
    assert sample.id == samples[2].id
    assert len({sample.id for sample in samples}) == 3


def test_the_release_is_checked(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, samples: list[Sample]
) -> None:
    asked: list[Any] = []

    def fetch(url: str, *, sha256: str | None) -> Path:
        asked.append((url, sha256))
        return tmp_path / "simple_qa_test_set.csv"

    monkeypatch.setattr("evals.suites.simpleqa.fetch", fetch)
    assert list(suite.load()) == samples == list(suite.load(tmp_path))
    assert asked == [(URL, SHA256)]
    assert len(bytes.fromhex(SHA256)) == hashlib.sha256().digest_size


def test_verified_has_its_own_release_and_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "simpleqa_verified.csv").write_text(VERIFIED)
    asked: list[Any] = []

    def hub_file(repo: str, filename: str) -> Path:
        asked.append((repo, filename))
        return tmp_path / filename

    monkeypatch.setattr("evals.suites.simpleqa.hub_file", hub_file)
    suite = suite_named("simpleqa_verified")
    (sample,) = suite.load()
    assert list(suite.load(tmp_path)) == [sample]
    assert asked == [("google/simpleqa-verified", "simpleqa_verified.csv")]
    assert sample.groups == {"topic": "Sport", "answer_type": "Number"}
    judge = ScriptedJudge("B")
    suite.score(sample, Output(answer="2 m"), judge)
    assert judge.prompts == [
        prompt_named("simpleqa_verified").format(question="How high?", target=sample.gold, answer="2 m")
    ]
    assert judge.prompts != [
        prompt_named("simpleqa").format(question="How high?", target=sample.gold, answer="2 m")
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("problem,answer\nWhat?,\n", "record 1, has no text in answer"),
        ("problem,answer\n ,B\n", "has no text in problem"),
        ("question,answer\nWhat?,B\n", "has no text in problem; its fields are question, answer"),
    ],
)
def test_records_that_cannot_be_graded_are_refused(
    suite: Suite, tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "part.csv").write_text(text)
    with pytest.raises(ConfigurationError, match=words):
        suite.load(tmp_path / "part.csv")


def test_the_answer_is_one_call(suite: Suite, samples: list[Sample]) -> None:
    asker = ScriptedAsker(["1969"])
    assert suite.answer(samples[0], asker).answer == "1969"
    assert asker.asked[0]["messages"] == samples[0].messages


@pytest.mark.parametrize(
    ("reply", "grade"),
    [("A", "correct"), ("B", "incorrect"), ("C", "not_attempted"), ("NOT_ATTEMPTED", "not_attempted")],
)
def test_a_grade(suite: Suite, samples: list[Sample], reply: str, grade: str) -> None:
    judge = ScriptedJudge(reply)
    score = suite.score(samples[0], Output(answer="In {question} 1969"), judge)
    expected = {name: float(name == grade) for name in ("correct", "incorrect", "not_attempted")}
    assert score.values == expected
    assert score.details == {"grade": grade, "judge": "scripted-judge", "reply": reply}
    assert 'Question: In which year, by "Aal", was {gold}?\nGold target: 1969\n' in judge.prompts[0]
    assert "Predicted answer: In {question} 1969\n" in judge.prompts[0]


@pytest.mark.parametrize("answer", ["", " ", "\n\t\u00a0"])
def test_an_empty_answer_is_not_attempted_and_not_asked_about(
    suite: Suite, samples: list[Sample], answer: str
) -> None:
    judge = ScriptedJudge("A")
    assert suite.score(samples[0], Output(answer=answer), judge).details["grade"] == "not_attempted"
    assert judge.prompts == []
    assert suite.score(samples[0], Output(answer=answer)).values["correct"] == 0


def test_what_is_no_grade_is_the_judges_error_unless_the_paper_s_parse_is_asked_for(
    suite: Suite, samples: list[Sample]
) -> None:
    with pytest.raises(UnreadableReplyError, match="scripted-judge gave no readable grade: 'Well'"):
        suite.score(samples[0], Output(answer="x"), ScriptedJudge("Well"))
    paper = suite_named("simpleqa:parse=paper")
    assert paper.name == "simpleqa:parse=paper"
    for reply, grade in (
        ("Well", "not_attempted"),
        ("INCORRECT", "not_attempted"),
        ("NOT_ATTEMPTED", "correct"),
    ):
        score = paper.score(samples[0], Output(answer="x"), ScriptedJudge(reply))
        assert score.details["grade"] == grade


def test_without_a_judge_an_answer_cannot_be_scored(suite: Suite, samples: list[Sample]) -> None:
    assert suite.needs_judge
    with pytest.raises(ConfigurationError, match="simpleqa is graded by a model"):
        suite.score(samples[0], Output(answer="x"))


def test_the_figures_by_hand(suite: Suite) -> None:
    grades = ["correct", "correct", "incorrect", "not_attempted", None]
    records = [
        Record(
            suite="simpleqa",
            sample=str(number),
            cell="ceiling",
            score=grade
            and Score(
                values={name: float(name == grade) for name in ("correct", "incorrect", "not_attempted")}
            ),
            failure=None if grade else Failure(stage="score", error_type="E", message=""),
        )
        for number, grade in enumerate(grades)
    ]
    result = suite.figure(records)
    assert result.value == pytest.approx(40)
    assert dict(result.parts) == pytest.approx(
        {
            "correct": 40,
            "incorrect": 20,
            "not_attempted": 20,
            "ungraded": 20,
            "accuracy_given_attempted": 100 * 2 / 3,
            "f": 50,  # harmonic mean of 2/5 and 2/3
        }
    )
    assert suite.figure([]).value == 0
    assert [suite.value(record) for record in records] == [1, 1, 0, 0, 0]
