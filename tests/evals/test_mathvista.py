"""The MathVista suite on made-up problems of the release's shapes: tables, images, texts, calls, scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.attachments import AttachmentPolicy, Attachments
from asymspec_agents.errors import ConfigurationError
from evals.attached import AttachedFiles
from evals.records import Failure, Record
from evals.sample import LongPart, Sample
from evals.scorers.mathvista_prompts import query_of
from evals.suites import mathvista_release, suite_named
from evals.suites.mathvista import MathVista
from evals.suites.mathvista_release import Release
from tests.evals.mathvista_made import MULTI, github, hub, picture, row
from tests.evals.one_call import OneCall


class Reader:
    """A text reader without models."""

    configuration = "reader/1"

    def read(self, png: bytes) -> str:
        return "SEEN HERE"


@pytest.fixture(scope="module")
def files() -> Iterator[AttachedFiles]:
    with Attachments(AttachmentPolicy(), text_reader=Reader()) as attachments:
        yield AttachedFiles(attachments)


@pytest.fixture
def suite(files: AttachedFiles) -> MathVista:
    suite = MathVista()
    suite.files = files
    return suite


def loaded(suite: MathVista, path: Path) -> dict[str, Sample]:
    return {sample.id: sample for sample in suite.load(path)}


def texts_of(sample: Sample) -> tuple[str, ...]:
    return sample.messages[0].texts()


def test_rows_become_samples(tmp_path: Path, suite: MathVista) -> None:
    samples = loaded(suite, github(tmp_path))
    assert list(samples) == ["1", "2", "3", "4"]
    first = samples["1"]
    assert texts_of(first) == (
        "Image description: The image shows bars.\nImage detected text: [([5, 3], 'ENTRY'), ([10, 3], '12')]",
        query_of("How many in 1?", question_type="free_form", answer_type="integer"),
    )
    assert first.long_parts == (LongPart(0, 0),)
    assert first.gold == "14"
    assert first.groups == {
        "question_type": "free_form",
        "answer_type": "integer",
        "language": "english",
        "source": "Made",
        "category": "general-vqa",
        "task": "figure question answering",
        "context": "bar chart",
        "grade": "elementary school",
        "skills": "arithmetic reasoning + statistical reasoning",
    }
    assert "(B) 12" in samples["2"].query
    assert "(Unit: m)" in samples["3"].query
    made_of = [sample.details["image_text_from"] for sample in samples.values()]
    assert made_of == ["caption+ocr", "caption", "none", "ocr"]
    assert texts_of(samples["3"])[0] == "[image images/3.jpg]"
    json.dumps([dict(sample.details) for sample in samples.values()])


def test_the_hubs_table_has_queries_and_images(tmp_path: Path, suite: MathVista) -> None:
    path = hub(tmp_path)
    samples = loaded(suite, path)
    assert samples == loaded(suite, tmp_path) == loaded(suite, tmp_path / "data")
    assert samples["1"].query == "Asked: How many in 1?"
    assert samples["3"].details["precision"] == 1
    release = Release.of(path)
    assert release.images.read("2", "images/2.jpg") == picture(2)
    assert release.images.read("9", "images/9.jpg") is None
    assert "decoded_image" not in release.rows[0].fields


def test_texts_beside_the_hubs_table_are_used(tmp_path: Path, suite: MathVista) -> None:
    hub(tmp_path)
    github(tmp_path / "data")
    assert loaded(suite, tmp_path)["2"].details["image_text"] == "Image description: Boats in a row."


def test_without_a_copy_table_and_texts_are_fetched(
    tmp_path: Path, suite: MathVista, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, texts = hub(tmp_path / "hub"), github(tmp_path / "git")
    asked: list[str] = []

    def hub_file(repo: str, filename: str, *, revision: str | None = None) -> Path:
        asked.append(f"{repo}@{revision}/{filename}")
        return table

    def fetch(url: str, *, sha256: str | None) -> Path:
        asked.append(url)
        return texts / "texts" / url.rpartition("/")[2]

    monkeypatch.setattr(mathvista_release, "hub_file", hub_file)
    monkeypatch.setattr(mathvista_release, "fetch", fetch)
    samples = {sample.id: sample for sample in suite.load()}
    assert samples["1"].details["image_text_from"] == "caption+ocr"
    assert asked[0].startswith("AI4Math/MathVista@2b6ad694")
    assert [url.rpartition("/")[2] for url in asked[1:]] == ["captions_bard.json", "ocrs_easyocr.json"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answer": None}, "no answer"),
        ({"answer": ""}, "split `test` are not public"),
        ({"pid": None}, "no text in pid"),
        ({"question": None}, "no text in question"),
        ({"question_type": "essay"}, "question_type='essay'"),
        ({"answer_type": None}, "no text in answer_type"),
        ({**MULTI, "choices": ["1", "2"]}, "answer='14', which is none of its choices"),
        ({**MULTI, "choices": None}, "answer='14', which is none of its choices"),
    ],
)
def test_rows_that_cannot_be_scored_are_refused(
    tmp_path: Path, suite: MathVista, changes: dict[str, Any], message: str
) -> None:
    path = tmp_path / "testmini.json"
    path.write_text(json.dumps([{**row("1"), **changes}]))
    with pytest.raises(ConfigurationError, match=message):
        suite.load(path)


def test_missing_precisions_are_those_of_the_gold_answer(tmp_path: Path, suite: MathVista) -> None:
    rows = [row("1", "0.25", answer_type="float"), row("2", "3", answer_type="float", metadata=None)]
    rows.append(row("3", "3.1", answer_type="float", precision=float("nan")))
    samples = loaded(suite, github(tmp_path, rows))
    assert [sample.details["precision"] for sample in samples.values()] == [2, None, 1]
    assert suite.score(samples["2"], OneCall().output("3.2")).values["accuracy"] == 1.0
    assert suite.score(samples["1"], OneCall().output("0.2499")).values["accuracy"] == 1.0
    assert suite.score(samples["3"], OneCall().output("nan")).values["accuracy"] == 0.0


def test_whoever_only_reads_gets_the_released_text(tmp_path: Path, suite: MathVista) -> None:
    sample = loaded(suite, github(tmp_path))["1"]
    asker = OneCall("14")
    output = suite.answer(sample, asker)
    assert asker.messages == sample.messages
    assert asker.long_parts == sample.long_parts
    assert output.trajectory == ({"full_view": "text", "image_text_from": "caption+ocr"},)


@pytest.mark.parametrize("zipped", [False, True])
def test_whoever_sees_gets_the_image_and_the_other_view_the_text(
    tmp_path: Path, suite: MathVista, zipped: bool
) -> None:
    sample = loaded(suite, github(tmp_path, zipped=zipped))["1"]
    asker = OneCall("14", sees_images=True)
    output = suite.answer(sample, asker)
    content = asker.messages[0].content
    assert isinstance(content, tuple)
    assert content[0].wire()["image_url"]["url"].startswith("data:image/png;base64,")
    assert asker.shown(0) == sample.details["image_text"]
    assert asker.shown(1) == sample.query
    assert output.trajectory[0]["full_view"] == "image"


@pytest.mark.parametrize("sees_images", [False, True])
def test_an_image_without_released_text_is_read(tmp_path: Path, suite: MathVista, sees_images: bool) -> None:
    sample = loaded(suite, github(tmp_path, texts=False))["1"]
    asker = OneCall("14", sees_images=sees_images)
    output = suite.answer(sample, asker)
    assert "SEEN HERE" in asker.shown(0)
    assert output.trajectory[0]["image_text_from"] == "own ocr"


def test_a_missing_image_is_told(tmp_path: Path, suite: MathVista) -> None:
    path = github(tmp_path, texts=False)
    (path / "images" / "1.jpg").unlink()
    asker = OneCall("14", sees_images=True)
    output = suite.answer(loaded(suite, path)["1"], asker)
    assert asker.shown(0) == '[file "images/1.jpg" not read: it is missing]'
    assert output.trajectory == ({"full_view": "text", "image_text_from": "none"},)


def test_images_need_the_suite_that_loaded(tmp_path: Path, suite: MathVista) -> None:
    sample = loaded(suite, github(tmp_path))["1"]
    with pytest.raises(ConfigurationError, match="loaded the samples"):
        MathVista().answer(sample, OneCall("14", sees_images=True))


class Judge:
    """Answers every prompt with one text."""

    name = "judge"

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.prompts: list[str] = []

    def ask(self, prompt: str, *, system: str | None = None, max_tokens: int = 512) -> str:
        self.prompts.append(prompt)
        return self.reply


SCORED = [
    ("1", "14", 1.0, "number"),
    ("1", "There are 14.", 1.0, "last_line"),
    ("1", "There are 13 or 14.", 0.0, "none"),
    ("2", "12", 1.0, "choice"),
    ("2", "(B)", 1.0, "last_line"),
    ("2", "(A)", 0.0, "last_line"),
    ("2", "", 0.0, "empty"),
    ("3", "1.24", 1.0, "number"),
    ("3", "It is 1.2 m.", 1.0, "last_line"),
    ("4", "[1, 2]", 1.0, "last_line"),
    ("4", "[1,2]", 0.0, "last_line"),
]


@pytest.mark.parametrize(("pid", "answer", "accuracy", "method"), SCORED)
def test_scores(
    tmp_path: Path, suite: MathVista, pid: str, answer: str, accuracy: float, method: str
) -> None:
    score = suite.score(loaded(suite, github(tmp_path))[pid], OneCall().output(answer))
    assert score.values["accuracy"] == accuracy
    assert score.values["extracted"] == float(method not in ("none", "empty"))
    assert score.details["extraction"] == method


def test_a_judge_reads_what_no_rule_does(tmp_path: Path, suite: MathVista) -> None:
    samples = loaded(suite, github(tmp_path))
    judge = Judge("B")
    score = suite.score(samples["2"], OneCall().output("It must be the second."), judge)
    assert score.values == {"accuracy": 1.0, "extracted": 1.0}
    assert score.details == {"extraction": "judge", "answer": "B", "prediction": "12"}
    assert samples["2"].query in judge.prompts[0]
    score = suite.score(samples["2"], OneCall().output("I can't tell."), Judge(" "))
    assert score.values == {"accuracy": 0.0, "extracted": 0.0}
    silent = Judge("B")
    assert suite.score(samples["2"], OneCall().output(" "), silent).values["accuracy"] == 0.0
    assert silent.prompts == []


def test_figures_by_skill_count_failures_as_wrong(tmp_path: Path, suite: MathVista) -> None:
    rows = [row("1"), row("2"), row("3")]
    rows[1]["metadata"] = {**rows[1]["metadata"], "skills": ["arithmetic reasoning"]}
    samples = loaded(suite, github(tmp_path, rows))
    records = []
    for pid, answer in (("1", "14"), ("2", "I can't tell."), ("3", None)):
        made: dict[str, Any] = {"suite": "mathvista", "sample": pid, "cell": "floor on none"}
        if answer is None:
            made["failure"] = Failure(stage="answer", error_type="E", message="")
        else:
            output = OneCall().output(answer)
            made |= {"output": output, "score": suite.score(samples[pid], output)}
        records.append(Record(groups=samples[pid].groups, **made))
    figure = suite.figure(records)
    third = pytest.approx(1 / 3)
    assert figure.value == third
    assert figure.parts == {
        "answer extracted": third,
        "skill: arithmetic reasoning": third,
        "skill: statistical reasoning": 0.5,
    }
    assert suite.figure([]).value == 0.0


def test_the_suite_is_found_by_name() -> None:
    assert isinstance(suite_named("mathvista"), MathVista)
