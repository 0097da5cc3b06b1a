"""The GAIA suite on made-up rows of the release's shape: tables, attachments, one call, groups, terms."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from asymspec_agents.attachments import AttachmentPolicy, Attachments
from asymspec_agents.errors import ConfigurationError
from evals.attached import AttachedFiles
from evals.records import Failure, Record
from evals.sample import LongPart, Sample
from evals.suites import gaia, suite_named
from evals.suites.gaia import SYSTEM_PROMPT, Gaia
from tests.attachments.files import image, pdf, xlsx
from tests.evals.made_releases import METADATA, gaia_release
from tests.evals.made_releases import gaia_row as row
from tests.evals.one_call import OneCall

ROWS = [
    row("a"),
    row("b", "2", "red, blue", "b.xlsx"),
    row("c", "3", "sea gull", "c.pdf"),
    row("d", file="d.mp3"),
]
SHEET = xlsx([["fish", "weight"], *([f"cod {number}", number] for number in range(300))])
FILES = {"b.xlsx": SHEET, "c.pdf": b"%PDF-1.7 broken", "d.mp3": b"ID3\x03" + bytes(64)}


def release(root: Path, rows: list[dict[str, Any]] = ROWS, files: dict[str, bytes] = FILES) -> Path:
    return gaia_release(root, rows, files)


class Reader:
    """A text reader without models."""

    configuration = "reader/1"

    def read(self, png: bytes) -> str:
        return "ENTRY 12"


@pytest.fixture(scope="module")
def suite() -> Iterator[Gaia]:
    with Attachments(AttachmentPolicy(), text_reader=Reader()) as attachments:
        suite = Gaia()
        suite.files = AttachedFiles(attachments)
        yield suite


def loaded(path: Path) -> dict[str, Sample]:
    return {sample.id: sample for sample in Gaia().load(path)}


def test_rows_become_samples(tmp_path: Path) -> None:
    samples = Gaia().load(release(tmp_path))
    assert [sample.id for sample in samples] == ["a", "b", "c", "d"]
    first, second = samples[:2]
    assert [message.content for message in first.messages] == [SYSTEM_PROMPT, "What is a?"]
    assert (first.query, first.gold, first.files, first.long_parts) == ("What is a?", "17", (), ())
    assert first.groups == {"level": "1", "subset": "web"}
    assert first.details == {"file_name": None, "metadata": METADATA}
    assert second.groups == {"level": "2", "subset": "file"}
    assert second.files == (tmp_path / "2023" / "validation" / "b.xlsx",)
    assert second.details["file_name"] == "b.xlsx"
    json.dumps([sample.details | {"gold": sample.gold} for sample in samples])


def test_a_copy_may_be_given_in_many_ways(tmp_path: Path) -> None:
    folder = release(tmp_path)
    expected = loaded(folder)
    assert loaded(tmp_path) == loaded(tmp_path / "2023") == loaded(folder / "metadata.parquet") == expected


def test_the_older_table_is_json_lines(tmp_path: Path) -> None:
    older = [{**row("a", file="c.pdf"), "Level": 1}, {**row("b"), "Level": 3}]
    for made in older:
        del made["file_path"]
    lines = "\n".join(json.dumps(made) for made in older) + "\n\n"
    (tmp_path / "metadata.jsonl").write_text(lines, "utf-8")
    (tmp_path / "c.pdf").write_bytes(pdf(["Page"]))
    samples = loaded(tmp_path)
    assert [sample.groups["level"] for sample in samples.values()] == ["1", "3"]
    assert samples["a"].files == (tmp_path / "c.pdf",)


def test_tables_by_level_are_read_together(tmp_path: Path) -> None:
    for level in "123":
        table = pyarrow.Table.from_pylist([row(f"task{level}", level)])
        pyarrow.parquet.write_table(table, tmp_path / f"metadata.level{level}.parquet")
    assert list(loaded(tmp_path)) == ["task1", "task2", "task3"]
    assert list(loaded(tmp_path / "metadata.level2.parquet")) == ["task2"]


def test_links_of_the_hubs_cache_are_followed_and_ways_out_are_not(tmp_path: Path) -> None:
    rows = [row("a", file="a.txt"), row("b", file="../../b.txt"), row("c", file="/etc/hostname")]
    folder = release(tmp_path / "copy", rows, {})
    (tmp_path / "blob").write_text("text")
    (folder / "a.txt").symlink_to(tmp_path / "blob")
    (tmp_path / "copy" / "b.txt").write_text("text")
    samples = loaded(folder)
    assert samples["a"].files == (folder / "a.txt",)
    assert samples["b"].files == samples["c"].files == ()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"Final answer": None}, "no text in Final answer"),
        ({"Final answer": " "}, "no text in Final answer"),
        ({"Final answer": "?"}, "not public"),
        ({"Question": None}, "no text in Question"),
        ({"Level": "4"}, "Level='4', which is none of 1, 2, 3"),
        ({"task_id": None}, "no text in task_id"),
        ({"task_id": "b"}, "'b' stands twice"),
    ],
)
def test_rows_that_cannot_be_scored_are_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    rows = [row("b")] if changes.get("Final answer") != "?" else []
    lines = [json.dumps(made) for made in [*rows, {**row("a"), **changes}]]
    (tmp_path / "metadata.jsonl").write_text("\n".join(lines))
    with pytest.raises(ConfigurationError, match=message):
        Gaia().load(tmp_path)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe{}", b"[1]"])
def test_tables_that_are_none_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "metadata.jsonl").write_bytes(content)
    (tmp_path / "metadata.parquet").write_bytes(content)
    for name in ("metadata.jsonl", "metadata.parquet"):
        with pytest.raises(ConfigurationError, match=name):
            Gaia().load(tmp_path / name)


def test_without_a_copy_the_terms_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(ConfigurationError, match="forbid resharing"):
            Gaia().load(path)

    def refused(repo: str, filename: str, *, revision: str | None = None) -> Path:
        raise ConfigurationError(f"{filename} of {repo} cannot be had.")

    monkeypatch.setattr(gaia, "hub_file", refused)
    with pytest.raises(
        ConfigurationError, match=r"metadata.parquet of gaia-benchmark/GAIA .* accept its terms"
    ):
        Gaia().load()


def test_the_hub_gives_table_and_attachments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release(tmp_path)
    asked: list[str] = []

    def hub_file(repo: str, filename: str, *, revision: str | None = None) -> Path:
        asked.append(f"{repo}/{filename}")
        return tmp_path / filename

    monkeypatch.setattr(gaia, "hub_file", hub_file)
    samples = {sample.id: sample for sample in Gaia().load()}
    assert samples["c"].files == (tmp_path / "2023/validation/c.pdf",)
    assert asked == [
        f"gaia-benchmark/GAIA/2023/validation/{name}"
        for name in ("metadata.parquet", "b.xlsx", "c.pdf", "d.mp3")
    ]


def test_a_question_without_file_is_one_plain_call(tmp_path: Path, suite: Gaia) -> None:
    asker = OneCall("Counting.\nFINAL ANSWER: 17")
    output = suite.answer(loaded(release(tmp_path))["a"], asker)
    assert asker.messages[-1].content == "What is a?"
    assert asker.long_parts == ()
    assert output.answer == "17"


def test_a_sheet_is_read_whole_and_may_be_shortened(tmp_path: Path, suite: Gaia) -> None:
    asker = OneCall("FINAL ANSWER: [red, blue]")
    sample = loaded(release(tmp_path))["b"]
    output = suite.answer(sample, asker)
    assert asker.long_parts == (LongPart(1, 1),)
    assert asker.shown(0) == "What is b?"
    assert asker.shown(1).startswith('[file "b.xlsx": XLSX')
    assert "cod 299" in asker.shown(1)
    assert output.trajectory == ({"file": "b.xlsx", "full_view": "text", "is_complete": True},)
    assert suite.score(sample, output).values == {"accuracy": 1.0}


@pytest.mark.parametrize(("task", "note"), [("c", "not converted"), ("d", "MP3 audio.*not supported")])
def test_what_cannot_be_read_is_told(tmp_path: Path, suite: Gaia, task: str, note: str) -> None:
    asker = OneCall("FINAL ANSWER: 17")
    output = suite.answer(loaded(release(tmp_path))[task], asker)
    assert re.search(note, asker.shown(1))
    assert output.trajectory[0]["is_complete"] is False


def test_a_missing_file_is_told(tmp_path: Path, suite: Gaia) -> None:
    sample = loaded(release(tmp_path, files={}))["b"]
    assert (sample.files, sample.groups["subset"]) == ((), "file")
    asker = OneCall("I can't.")
    output = suite.answer(sample, asker)
    assert asker.shown(1) == '[file "b.xlsx" not read: it is missing]'
    assert suite.score(sample, output).values == {"accuracy": 0.0}


@pytest.mark.parametrize("sees_images", [False, True])
def test_an_image_is_text_for_whoever_does_not_see(tmp_path: Path, suite: Gaia, sees_images: bool) -> None:
    rows, data = [row("a", file="a.png")], image("PNG", (60, 40))
    sample = loaded(release(tmp_path, rows, {"a.png": data}))["a"]
    asker = OneCall("FINAL ANSWER: 17", sees_images=sees_images)
    output = suite.answer(sample, asker)
    content = asker.messages[-1].content
    assert isinstance(content, tuple)
    assert content[1].type == ("image_url" if sees_images else "text")
    assert (asker.long_parts[0].text is not None) is sees_images
    assert asker.shown(1).startswith('[image "a.png": PNG, 60×40')
    assert "ENTRY 12" in asker.shown(1)
    assert output.trajectory[0]["full_view"] == ("image" if sees_images else "text")


@pytest.mark.parametrize("answer", ["", " ", "FINAL ANSWER:", "I don't know."])
def test_no_answer_scores_nothing(tmp_path: Path, suite: Gaia, answer: str) -> None:
    sample = loaded(release(tmp_path))["a"]
    assert suite.score(sample, suite.answer(sample, OneCall(answer))).values == {"accuracy": 0.0}


def test_the_score_tells_no_gold_answer(tmp_path: Path, suite: Gaia) -> None:
    sample = loaded(release(tmp_path))["b"]
    score = suite.score(sample, OneCall().output("red"))
    assert score.details == {"kind": "list"}


def test_a_restricted_record_quotes_nothing(tmp_path: Path, suite: Gaia) -> None:
    sample = loaded(release(tmp_path))["b"]
    output = suite.answer(sample, OneCall("What is b? is about cod 5.\nFINAL ANSWER: red, blue"))
    score = suite.score(sample, output)
    record = Record(suite="gaia", sample="b", cell="floor on none", output=output, score=score)
    assert "cod" in record.model_dump_json()
    kept = record.restricted()
    assert Gaia.is_restricted
    assert "cod" not in kept.model_dump_json()
    assert kept.output is not None
    assert kept.output.answer == "red, blue"
    assert len(kept.output.calls) == 1
    assert kept.score == record.score
    failed = Record(
        suite="gaia", sample="b", cell="x", failure=Failure(stage="answer", error_type="E", message="")
    )
    assert failed.restricted() == failed


def test_figures_by_level_and_subset_count_failures_as_wrong(tmp_path: Path, suite: Gaia) -> None:
    samples = loaded(release(tmp_path))
    records = []
    for task, answer in [("a", "17"), ("b", "red,blue"), ("c", None), ("d", "18")]:
        sample = samples[task]
        made: dict[str, Any] = {
            "suite": "gaia",
            "sample": task,
            "cell": "floor on none",
            "groups": sample.groups,
        }
        if answer is None:
            made["failure"] = Failure(stage="answer", error_type="E", message="")
        else:
            output = OneCall().output(answer)
            made |= {"output": output, "score": suite.score(sample, output)}
        records.append(Record(**made))
    figure = suite.figure(records)
    assert figure.value == 0.5
    assert figure.parts == {
        "level 1": 0.5,
        "level 2": 1.0,
        "level 3": 0.0,
        "subset file": pytest.approx(1 / 3),
        "subset web": 1.0,
    }
    assert suite.figure([]).value == 0.0


def test_the_suite_is_found_by_name() -> None:
    assert isinstance(suite_named("gaia"), Gaia)
