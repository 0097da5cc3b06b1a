"""LongBench and multihop: the official prompt byte for byte, odd records, truncation, figures by hand."""

from __future__ import annotations

import json
import math
import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asymspec_agents.engine.chat import ChatTemplate
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message
from asymspec_agents.protocol import Edit, apply_edits
from evals.records import Failure, Output, Record, Score
from evals.sample import LongPart, Sample
from evals.suite import Suite
from evals.suites import suite_named
from evals.suites.passages import LENGTHS, prompt_parts, truncated
from tests.engine.tiny_folder import byte_tokenizer
from tests.evals.askers import ScriptedAsker

# THUDM/LongBench, config/dataset2prompt.json: one text for hotpotqa, 2wikimqa and musique.
OFFICIAL = (
    "Answer the question based on the given passages. Only give me the answer and do not output any other "
    "words.\n\nThe following are given passages.\n{context}\n\n"
    "Answer the question based on the given passages. Only give me the answer and do not output any other "
    "words.\n\nQuestion: {input}\nAnswer:"
)
PASSAGES = "Passage 1:\nThe Red Mill\nIt stands in Aal.\n\nPassage 2:\nAal {x}\nA town in “Övre”.\n"


def record(**changes: Any) -> dict[str, Any]:
    return {
        "input": "In which town is the {mill}?",
        "context": PASSAGES,
        "answers": ["Aal", "Aal town"],
        "length": 4_000,
        "dataset": "hotpotqa",
        "language": "en",
        "all_classes": None,
        "_id": "h1",
        **changes,
    }


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(item) + "\n" for item in records), encoding="utf-8")
    return path


def load(path: Path, *records: dict[str, Any], suite: str = "longbench_hotpotqa") -> list[Sample]:
    return list(suite_named(suite).load(write(path / "hotpotqa.jsonl", *records)))


def test_the_prompt_is_the_official_one_as_a_chat_template_reads_it(tmp_path: Path) -> None:
    (sample,) = load(tmp_path, record())
    official = OFFICIAL.replace("{context}", PASSAGES).replace("{input}", "In which town is the {mill}?")
    assert "\n".join(sample.messages[0].texts()) == official
    template = ChatTemplate(byte_tokenizer())
    assert template.ids(sample.messages) == template.ids([Message(role="user", content=official)])


def test_only_the_passages_are_shortened(tmp_path: Path) -> None:
    (sample,) = load(tmp_path, record())
    assert sample.long_parts == (LongPart(0, 1),)
    short = apply_edits(sample.messages, [Edit(message=0, part=1, text="Passage 2: Aal")])
    expected = OFFICIAL.replace("{context}", "Passage 2: Aal").replace(
        "{input}", "In which town is the {mill}?"
    )
    assert "\n".join(short[0].texts()) == expected


def test_a_sample_has_what_scoring_and_grouping_need(tmp_path: Path) -> None:
    (sample,) = load(tmp_path, record())
    assert (sample.suite, sample.id, sample.max_tokens) == ("longbench_hotpotqa", "h1", 32)
    assert sample.query == "In which town is the {mill}?"
    assert sample.gold == ["Aal", "Aal town"]
    assert sample.groups == {"length": "4-8k"}
    json.dumps(sample.gold)


@pytest.mark.parametrize(
    ("length", "bucket"),
    [
        (0, "0-4k"),
        (3_999, "0-4k"),
        (4_000, "4-8k"),
        (7_999.5, "4-8k"),
        (8_000, "8k+"),
        (None, "0-4k"),
        (math.nan, "0-4k"),
        ("12000", "0-4k"),
        (True, "0-4k"),
    ],
)
def test_buckets_of_longbench_e(tmp_path: Path, length: Any, bucket: str) -> None:
    (sample,) = load(tmp_path, record(length=length))  # what is no number is counted: few words
    assert sample.groups["length"] == bucket


def test_odd_records_that_can_be_scored_are_kept(tmp_path: Path) -> None:
    samples = load(
        tmp_path,
        {"input": "q", "context": "c", "answers": ["x"]},
        record(_id=0, answers=["", 1969, None, math.nan], dataset=None),
        record(_id="u", answers="Aal", context="\ud800 \u2028 😀"),
    )
    assert [(sample.id, sample.gold) for sample in samples] == [("1", ["x"]), ("0", ["1969"]), ("u", ["Aal"])]
    assert samples[2].messages[0].texts()[1] == "\ud800 \u2028 😀"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"answers": []}, "hotpotqa.jsonl, record 2, has nothing in answers"),
        ({"answers": ["", "  "]}, "has nothing in answers"),
        ({"answers": None}, "has nothing in answers"),
        ({"input": " "}, "has no text in input"),
        ({"context": math.nan}, "has no text in context"),
        ({"dataset": "musique"}, "is of musique, not of hotpotqa"),
        ({"supporting_passages": [1]}, "use the suite multihop"),
        ({"_id": "h1"}, "the id 'h1' stands twice"),
    ],
)
def test_records_that_cannot_be_scored_are_refused(
    tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigurationError, match=words):
        load(tmp_path, record(), record(**{"_id": "h2", **changes}))


@pytest.mark.parametrize("name", ["hotpotqa", "2wikimqa", "musique"])
def test_each_set_is_found_in_the_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    archive = tmp_path / "data.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for dataset in ("hotpotqa", "2wikimqa", "musique", "hotpotqa_e"):
            file.writestr(f"data/{dataset}.jsonl", json.dumps(record(dataset=dataset, _id=dataset)) + "\n")
    suite = suite_named(f"longbench_{name}")
    assert [sample.id for sample in suite.load(archive)] == [name]
    assert [sample.id for sample in suite.load(tmp_path)] == [name]  # its folder
    asked = []

    def hub_file(repo: str, filename: str) -> Path:
        asked.append((repo, filename))
        return archive

    monkeypatch.setattr("evals.suites.longbench.hub_file", hub_file)
    assert [sample.id for sample in suite.load()] == [name]
    assert asked == [("THUDM/LongBench", "data.zip")]


def test_the_answer_is_one_call_and_its_f1(tmp_path: Path) -> None:
    suite = suite_named("longbench_hotpotqa")
    (sample,) = load(tmp_path, record())
    asker = ScriptedAsker(["In Aal town."])
    output = suite.answer(sample, asker)
    assert asker.asked == [
        {
            "messages": sample.messages,
            "query": sample.query,
            "long_parts": sample.long_parts,
            "max_tokens": 32,
        }
    ]
    assert output.trajectory == ()
    assert suite.score(sample, output).values == {"f1": pytest.approx(0.8)}  # against "Aal town": 2/3 and 1
    for empty in ("", " \n"):
        assert suite.score(sample, Output(answer=empty)).values == {"f1": 0.0}


def scored(suite: Suite, sample: str, value: float | None, **groups: str) -> Record:
    return Record(
        suite=suite.name,
        sample=sample,
        cell="ceiling",
        groups=groups,
        score=None if value is None else Score(values={"f1": value}),
        failure=Failure(stage="answer", error_type="E", message="") if value is None else None,
    )


def test_the_figure_by_hand() -> None:
    suite = suite_named("longbench_musique")
    records = [
        scored(suite, "1", 1.0, length="0-4k"),
        scored(suite, "2", 1 / 3, length="8k+"),
        scored(suite, "3", None, length="8k+"),  # a failure counts as 0
    ]
    result = suite.figure(records)
    assert result.value == 44.44
    assert dict(result.parts) == {"0-4k": 100.0, "8k+": 16.67}
    assert list(result.parts) == [LENGTHS[0], LENGTHS[2]]
    assert suite.figure([]).value == 0.0


def test_multihop_is_no_longbench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "multihop"
    write(folder / "hotpotqa.jsonl", record(supporting_passages=[1, 2]))
    write(folder / "musique.jsonl", record(dataset="musique", supporting_passages=None))
    suite = suite_named("multihop")
    monkeypatch.setenv("ASYMSPEC_DATA", str(tmp_path))
    for path in (None, tmp_path, folder):
        samples = suite.load(path)
        assert [sample.id for sample in samples] == ["musique/h1", "hotpotqa/h1"]
    assert samples[1].groups == {"dataset": "hotpotqa", "length": "4-8k"}
    assert samples[1].details == {"supporting_passages": [1, 2]}
    assert samples[1].messages[0].texts() == prompt_parts("In which town is the {mill}?", PASSAGES)
    assert [sample.id for sample in suite.load(folder / "hotpotqa.jsonl")] == ["hotpotqa/h1"]
    assert "LongBench" not in suite.title.replace("not LongBench", "")
    records = [scored(suite, "a", 1.0, dataset="hotpotqa"), scored(suite, "b", 0.5, dataset="musique")]
    result = suite.figure(records)
    assert (result.value, dict(result.parts)) == (75.0, {"musique": 50.0, "hotpotqa": 100.0})


def test_multihop_says_where_its_data_may_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASYMSPEC_DATA", raising=False)
    with pytest.raises(ConfigurationError, match="pass --data FOLDER, or set ASYMSPEC_DATA"):
        suite_named("multihop").load()
    with pytest.raises(ConfigurationError, match=r"holds none of musique\.jsonl"):
        suite_named("multihop").load(tmp_path)


def count_words(messages: Any, tools: Any) -> int:
    """A tokenizer of single characters, with a template of 7 tokens around a message."""
    return sum(len(text) for message in messages for text in message.texts()) + 7


@pytest.mark.parametrize("limit", [600, 601, 1_000])
def test_the_middle_is_cut_to_the_limit(tmp_path: Path, limit: int) -> None:
    suite = suite_named(f"longbench_hotpotqa:max_prompt_tokens={limit}")
    assert suite.name == f"longbench_hotpotqa:max_prompt_tokens={limit}"
    context = "".join(f"{number:05d}" for number in range(2_000))
    (sample,) = suite.load(write(tmp_path / "hotpotqa.jsonl", record(context=context)))
    assert sample.suite == suite.name
    whole = "\n".join(sample.messages[0].texts())
    asker = ScriptedAsker(["Aal"], counter=count_words)
    output = suite.answer(sample, asker)
    prompt = "\n".join(asker.asked[0]["messages"][0].texts())
    half = limit // 2
    assert prompt == whole[:half] + whole[-half:]  # the official rule, with characters for tokens
    assert asker.asked[0]["long_parts"] == sample.long_parts
    cut = {"truncated": "middle", "prompt_tokens": len(whole), "kept_tokens": 2 * half}
    assert output.trajectory == (cut,)


WORDS = st.lists(st.sampled_from(["tower ", "in ", "1884, ", "Övre ", "\n", "x"]), min_size=300, max_size=600)


@settings(max_examples=20)
@given(WORDS.map("".join), st.integers(256, 400))
def test_the_limit_holds_whatever_the_tokens_are(context: str, limit: int) -> None:
    def count(messages: Any, tools: Any) -> int:
        """Words and their neighbours' ends: put together, texts may have more tokens than apart, or fewer."""
        return sum(len(re.findall(r"\w+\W|\w+|\W", text)) for message in messages for text in message.texts())

    parts = [{"type": "text", "text": text} for text in prompt_parts("Which tower?", context)]
    messages = (Message.model_validate({"role": "user", "content": parts}),)
    (cut,), note = truncated(messages, limit, count)
    kept = cut.texts()[1]
    assert (cut.texts()[0], cut.texts()[2]) == (parts[0]["text"], parts[2]["text"])
    num_tokens = count([Message(role="user", content="\n".join(cut.texts()))], ())
    assert num_tokens <= limit
    if note:
        assert note["kept_tokens"] == num_tokens >= limit - 8
        assert any(
            context.startswith(kept[:size]) and context.endswith(kept[size:]) for size in range(len(kept) + 1)
        )
    else:
        assert kept == context


def test_a_short_prompt_is_not_cut(tmp_path: Path) -> None:
    suite = suite_named("longbench_hotpotqa:max_prompt_tokens=1000")
    (sample,) = suite.load(write(tmp_path / "hotpotqa.jsonl", record()))
    for counter in (count_words, None):
        asker = ScriptedAsker(["Aal"], counter=counter)
        assert suite.answer(sample, asker).trajectory == ()
        assert asker.asked[0]["messages"] == sample.messages


def test_a_question_longer_than_the_limit_fails_clearly(tmp_path: Path) -> None:
    suite = suite_named("longbench_hotpotqa:max_prompt_tokens=256")
    (sample,) = suite.load(write(tmp_path / "hotpotqa.jsonl", record(input="why? " * 200)))
    with pytest.raises(ConfigurationError, match="leaves no room beside the question"):
        suite.answer(sample, ScriptedAsker(["Aal"], counter=count_words))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("longbench", "suites: .*longbench_hotpotqa"),
        ("longbench_musique:max_prompt_tokens=many", "must be a number of at least 256"),
        ("longbench_musique:max_prompt_tokens=255", "must be a number of at least 256"),
        ("longbench_musique:max_prompt_tokens", "must be option=value"),
        ("longbench_musique:length=3", "longbench_musique has max_prompt_tokens"),
        ("simpleqa:parse=loose", "must be strict or paper"),
        ("multi_challenge:k=3", "multi_challenge has none"),
    ],
)
def test_unknown_names_and_options(name: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        suite_named(name)
