"""BFCL's suites: loading in every form of the release, tools, and scores of outputs of every kind."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.compress.tool_docs import signature_schema
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import check_conversation
from evals.records import Output, Score
from evals.sample import Sample
from evals.suites import suite_named
from evals.suites.bfcl import BfclMultiple, BfclParallel, BfclSimple
from evals.suites.bfcl_memory import BfclMemoryContext
from evals.suites.bfcl_tools import as_tools
from tests.evals.made_tools import (
    BFCL,
    FUNCTIONS,
    call,
    write_bfcl,
    write_bfcl_official,
    write_bfcl_wheel,
    write_lines,
)

FORMS: list[Callable[[Path], Path]] = [
    write_bfcl,
    write_bfcl_official,
    write_bfcl_wheel,
    lambda folder: write_bfcl_official(folder) / "bfcl_eval",
    lambda folder: write_bfcl_official(folder) / "bfcl_eval" / "data",
    lambda folder: write_bfcl_official(folder / "berkeley-function-call-leaderboard").parent,
]


@pytest.mark.parametrize("write", FORMS)
def test_every_form_of_the_release_gives_the_same_samples(tmp_path: Path, write: Any) -> None:
    joined = write_bfcl(tmp_path / "joined")
    path = write(tmp_path / "form")
    for suite in (BfclSimple(), BfclMultiple(), BfclParallel(), BfclMemoryContext()):
        samples = suite.load(path)
        assert samples
        assert list(samples) == list(suite.load(joined))
        for sample in samples:
            assert sample.suite == suite.name
            check_conversation(sample.messages)
            json.dumps([sample.gold, sample.details])


@pytest.mark.parametrize("name", ["bfcl_simple", "bfcl_multiple", "bfcl_parallel", "bfcl_memory_context"])
def test_suites_are_registered_and_need_no_judge(name: str) -> None:
    suite = suite_named(name)
    assert (suite.name, suite.needs_judge, suite.is_binary) == (name, False, True)


def test_functions_become_tools_with_json_schemas() -> None:
    before = json.dumps(FUNCTIONS)
    water, harvest = (tool["function"] for tool in as_tools(FUNCTIONS))
    assert json.dumps(FUNCTIONS) == before
    assert (water["name"], harvest["name"]) == ("garden_water", "harvest")
    assert water["parameters"]["type"] == "object"
    assert water["parameters"]["required"] == ["bed", "litres"]
    properties = water["parameters"]["properties"]
    assert {name: schema["type"] for name, schema in properties.items()} == {
        "bed": "string",
        "litres": "number",
        "minutes": "integer",
        "is_warm": "boolean",
        "plants": "array",
        "spot": "array",
        "note": "string",
        "timer": "object",
        "steps": "array",
    }
    assert properties["spot"]["items"] == {"type": "number"}
    assert properties["timer"]["properties"]["days"] == {"type": "integer"}
    assert properties["steps"]["items"] == {"type": "object", "properties": {"valve": {"type": "integer"}}}
    assert properties["litres"]["description"] == "How much water. This is a float type value."
    assert properties["is_warm"]["default"] is False


def test_a_parameter_may_be_called_like_a_keyword() -> None:
    odd = {"type": {"type": "string"}, "items": {"type": "float"}, "properties": {}}
    (tool,) = as_tools([{"name": "f", "parameters": {"type": "dict", "properties": odd}}])
    properties = tool["function"]["parameters"]["properties"]
    assert {name: schema["type"] for name, schema in properties.items()} == {
        "type": "string",
        "items": "number",
        "properties": "string",
    }


def _simple(tmp_path: Path) -> Sample:
    return BfclSimple().load(write_bfcl(tmp_path))[0]


def _score(sample: Sample, **fields: Any) -> Score:
    return BfclSimple().score(sample, Output(**{"answer": "", **fields}))


WATERED = {"bed": "Roses", "litres": 4.5}
CALL = {"name": "garden_water", "arguments": WATERED}


@pytest.mark.parametrize(
    ("text", "read_from"),
    [
        (json.dumps(CALL), "json"),
        (json.dumps([CALL]), "json"),
        (f"```json\n{json.dumps(CALL)}\n```", "json"),
        (json.dumps({"name": "garden_water", "parameters": WATERED}), "json"),
        (f"Sure!\n<tool_call>\n{json.dumps(CALL)}\n</tool_call>", "json"),
        (f"<think>{{'name': 1}}</think>\n\n{json.dumps(CALL)}", "json"),
        ("garden_water(bed='roses', litres=4.5)", "python"),
        ("[garden_water(bed='roses', litres=4.5)]", "python"),
        ("```python\ngarden_water(bed='roses', litres=4.5)\n```", "python"),
        ("```\nprint(garden_water(bed='roses', litres=4.5))\n```", "python"),
        ("<think>\nhm\n</think>\n[garden_water(bed='roses', litres=4.5, is_warm=false)]", "python"),
    ],
)
def test_calls_written_as_text_are_read_where_they_are_the_answer(
    tmp_path: Path, text: str, read_from: str
) -> None:
    score = _score(_simple(tmp_path), answer=text)
    assert score.values == {"accuracy": 1.0, "accuracy_any_form": 1.0}
    assert score.details == {"error": None, "parameter": None, "read_from": read_from, "num_calls": 1}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  \n",
        "I watered the roses with 4.5 litres.",
        "I would call garden_water(bed='roses', litres=4.5).",
        '{"name": "garden_water", "arguments": {"bed": "roses", "litres": 4.5}',
        "garden_water('roses', 4.5)",
        "garden_water(bed='roses', litres=2 + 2.5)",
        "x = garden_water(bed='roses', litres=4.5)",
        "__import__('os').abort()",
        "[]",
        "\ud800",
        "(" * 5_000,
        "[" * 20_000,
    ],
)
def test_other_text_is_no_call(tmp_path: Path, text: str) -> None:
    score = _score(_simple(tmp_path), answer=text)
    assert score.values == {"accuracy": 0.0, "accuracy_any_form": 0.0}
    assert score.details["error"] == "no_call"
    assert score.details["read_from"] == "nowhere"


SHOWN = json.dumps(CALL, indent=2)


@pytest.mark.parametrize(
    ("text", "any_form"),
    [
        (f"I would call {json.dumps(CALL)}.", 1.0),
        (f"To water the roses, call:\n\n```json\n{SHOWN}\n```\n\nThis waters them.", 1.0),
        (f'Here:\n\n```\n{{"tool_calls": [{SHOWN}]}}\n```', 1.0),
        ("Use {braces} so:\n```python\ngarden_water(bed='roses', litres=4.5)\n```\nDone.", 1.0),
        (f"{SHOWN}\nor rather\n{SHOWN}", 0.0),  # two calls where one is expected
        (f"{SHOWN.replace('4.5', '5')} is it.", 0.0),
        (f'The schema is {{"name": "other", "arguments": {{}}}}, so {SHOWN}', 1.0),
        ("{" * 5_000 + SHOWN, 0.0),  # beyond what is looked through
    ],
)
def test_calls_shown_in_prose_count_apart(tmp_path: Path, text: str, any_form: float) -> None:
    score = _score(_simple(tmp_path), answer=text)
    assert score.values == {"accuracy": 0.0, "accuracy_any_form": any_form}
    assert score.details["error"] == "no_call"
    if any_form:
        assert score.details["read_from"] == "prose"


@pytest.mark.parametrize(
    ("calls", "error"),
    [
        ([call("garden_water", WATERED)], None),
        ([call("garden_water", json.dumps(WATERED) + "\n")], None),
        ([{"function": {"name": "garden_water", "arguments": WATERED}}], None),  # no JSON text, as some send
        ([call("garden_water", '{"bed": "roses", "litres": 4.5')], "unreadable_arguments"),
        ([call("garden_water", "[1]")], "unreadable_arguments"),
        ([call("garden_water", json.dumps(json.dumps(WATERED)))], "unreadable_arguments"),
        ([call("garden_water", "")], "missing_required"),
        ([call("garden_water", None)], "missing_required"),
        ([call(None, WATERED)], "wrong_name"),
        ([{"id": "x"}], "wrong_name"),
        ([call("garden_water", WATERED)] * 2, "wrong_count"),
        ([call("garden_water", {**WATERED, "litres": "4.5"})], "wrong_type"),
    ],
)
def test_tool_calls_are_scored_whatever_the_text_says(
    tmp_path: Path, calls: list[dict[str, Any]], error: str | None
) -> None:
    text = json.dumps(CALL)
    score = _score(_simple(tmp_path), answer=text, tool_calls=tuple(calls))
    assert (score.values["accuracy"], score.details["error"]) == (float(error is None), error)
    assert score.details["read_from"] == "tool_calls"


def test_parallel_calls_in_any_order_and_number(tmp_path: Path) -> None:
    suite = BfclParallel()
    sample = suite.load(write_bfcl(tmp_path))[0]
    water, harvest = call("garden_water", WATERED), call("harvest", {"bed": "Beans"})
    for calls, right in [
        ((water, harvest), 1.0),
        ((harvest, water), 1.0),
        ((harvest,), 0.0),
        ((harvest, harvest), 0.0),
        ((harvest, water, water), 0.0),
    ]:
        assert suite.score(sample, Output(answer="", tool_calls=calls)).values["accuracy"] == right
    text = "[harvest(bed='beans'), garden_water(bed='roses', litres=4.5)]"
    assert suite.score(sample, Output(answer=text)).values["accuracy"] == 1.0


def test_the_signature_view_is_shorter_and_scores_by_the_full_documentation(tmp_path: Path) -> None:
    sample = BfclMultiple().load(write_bfcl(tmp_path))[0]
    assert BfclMultiple.default_views == ("signature",)
    full = json.dumps([tool.wire() for tool in sample.tools])
    short = json.dumps([signature_schema(tool).wire() for tool in sample.tools])
    assert len(short) < 0.8 * len(full)
    assert sample.details["functions"] == FUNCTIONS


def _broken(tmp_path: Path, record: dict[str, Any]) -> Path:
    return write_lines(tmp_path / "simple_python.jsonl", [record]).parent


GOOD = {"question": [[{"role": "user", "content": "?"}]], **BFCL["simple_python"][1]}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"id": None}, "id=None must be a text"),
        ({"question": None}, "no record of BFCL"),
        ({"question": [[{"content": "?"}]]}, "role"),
        ({"function": None}, "no record of BFCL"),
        ({"function": [{"name": "harvest"}]}, "'parameters' is missing"),
        ({"ground_truth": []}, "no call"),
        ({"ground_truth": [{"dig": {}}]}, "does not describe"),
    ],
)
def test_a_record_of_another_shape_is_refused(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        BfclSimple().load(_broken(tmp_path, {**GOOD, **change}))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b'{"id": "a"}\n{"id": ', "line 2 is no JSON"),
        (b'\xef\xbb\xbf["a"]\n', "line 1 must be a JSON object"),
        (b"\xff\xfe{}", "UTF-8"),
        (b'{"id": "a"}\n{"id": "a"}\n', "stands twice"),
    ],
)
def test_a_broken_file_is_named_with_its_line(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "simple_python.jsonl").write_bytes(content)
    with pytest.raises(ConfigurationError, match=problem):
        BfclSimple().load(tmp_path)


def test_a_byte_order_mark_and_odd_line_separators_are_read(tmp_path: Path) -> None:
    record = {**GOOD, "question": [[{"role": "user", "content": "one\u2028two\x85three"}]]}
    text = json.dumps(record, ensure_ascii=False) + "\r\n"
    (tmp_path / "simple_python.jsonl").write_bytes(b"\xef\xbb\xbf" + text.encode())
    (sample,) = BfclSimple().load(tmp_path)
    assert sample.query == "one\u2028two\x85three"


def test_answers_that_are_missing_are_named(tmp_path: Path) -> None:
    data = write_bfcl_official(tmp_path) / "bfcl_eval" / "data"
    write_lines(data / "possible_answer" / "BFCL_v4_simple_python.json", [{"id": "simple_python_0"}])
    with pytest.raises(ConfigurationError, match=r"'simple_python_0' \(2 questions"):
        BfclSimple().load(tmp_path)
    (data / "possible_answer" / "BFCL_v4_multiple.json").unlink()
    with pytest.raises(ConfigurationError, match="--data"):
        BfclMultiple().load(tmp_path)


def test_what_is_no_release_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "file.txt").write_text("x", "utf-8")
    for path in (tmp_path, tmp_path / "file.txt", tmp_path / "absent"):
        with pytest.raises(ConfigurationError, match=r"pip download .*bfcl-eval==.* --data"):
            BfclSimple().load(path)


def test_without_a_path_the_installed_package_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="not installed"):
        BfclSimple().load()
    package = write_bfcl_official(tmp_path) / "bfcl_eval"
    (package / "__init__.py").write_text("raise SystemExit('never imported')", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert [sample.id for sample in BfclSimple().load()] == ["simple_python_0", "simple_python_1"]


def test_memory_questions_stand_behind_their_conversations(tmp_path: Path) -> None:
    suite = BfclMemoryContext()
    (sample,) = suite.load(write_bfcl(tmp_path))
    roles = [message.role for message in sample.messages]
    assert roles == ["system", *["user", "assistant"] * 2, "user"]
    assert sample.messages[-1].content == sample.query == "How many beds do I have?"
    parts = [sample.messages[part.message] for part in sample.long_parts]
    assert [message.content for message in parts] == [
        "Bonjour, j'ai un jardin à Besançon.\n\nThere are seven beds in it.\nOne is for roses.",
        "It rained again.",
    ]
    assert sample.groups == {"scenario": "gardener"}
    for answer, right in [("Seven.", 1.0), ("7 beds", 1.0), ("17", 0.0), ("", 0.0), ("I do not know", 0.0)]:
        assert suite.score(sample, Output(answer=answer)).values == {"accuracy": right}


def test_a_memory_question_without_its_conversation_is_an_error(tmp_path: Path) -> None:
    write_bfcl(tmp_path)
    (tmp_path / "memory_conversations" / "memory_gardener.jsonl").unlink()
    with pytest.raises(ConfigurationError, match=r"memory_gardener\.json"):
        BfclMemoryContext().load(tmp_path)
    write_lines(tmp_path / "memory_questions.jsonl", [{"id": "memory_0-gardener-0", "question": [[]]}])
    with pytest.raises(ConfigurationError, match="'scenario' is missing"):
        BfclMemoryContext().load(tmp_path)
