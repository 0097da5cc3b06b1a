"""API-Bank as a suite: both layouts, the conversation before a call, the tools, scores."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import check_conversation
from evals.records import Output
from evals.sample import Sample
from evals.suites import suite_named
from evals.suites.api_bank import ApiBank
from evals.suites.api_bank_messages import NEXT_CALL, conversation
from tests.evals.made_tools import (
    API_FILES,
    DIALOGUES,
    call,
    write_api_bank,
    write_api_bank_official,
    write_lines,
)

SUITE = ApiBank()


def _samples(tmp_path: Path) -> list[Sample]:
    return list(SUITE.load(write_api_bank(tmp_path)))


def test_it_is_registered_and_never_called_accuracy() -> None:
    suite = suite_named("api_bank")
    assert (suite.metric, suite.needs_judge, suite.default_views) == ("api_call_match", False, ("signature",))
    assert "not the official accuracy" in suite.title


def test_both_layouts_give_the_same_samples(tmp_path: Path) -> None:
    joined = _samples(tmp_path / "joined")
    official = write_api_bank_official(tmp_path / "DAMO-ConvAI" / "api-bank")
    assert list(SUITE.load(tmp_path / "joined" / "dialogues.jsonl")) == joined
    for path in (official, official.parent):
        found = {sample.id: sample for sample in SUITE.load(path)}
        assert found.keys() == {sample.id for sample in joined}
        for sample in joined:
            same = found[sample.id]
            assert (same.messages, same.gold, same.groups) == (sample.messages, sample.gold, sample.groups)
            names = [[tool.function.name for tool in one.tools if tool.function] for one in (same, sample)]
            assert names[0] == names[1]


def test_each_call_is_a_sample_of_its_dialogue(tmp_path: Path) -> None:
    samples = _samples(tmp_path)
    first = "level-1-given-desc/BookTable-level-2-1.jsonl"
    second = "level-2-toolsearcher/BookTable-level-3-1.jsonl"
    assert [sample.id for sample in samples] == [f"{first}#{n}" for n in (2, 3, 7)] + [
        f"{second}#{n}" for n in (1, 2)
    ]
    assert [sample.details["cluster"] for sample in samples] == [first] * 3 + [second] * 2
    assert [sample.groups["call"] for sample in samples] == ["api", "api", "api", "search", "api"]
    assert samples[-1].groups["docs"] == "lack a parameter of the call"
    for sample in samples:
        check_conversation(sample.messages)
        json.dumps([sample.gold, dict(sample.details)])


def test_the_conversation_before_a_call(tmp_path: Path) -> None:
    sample = _samples(tmp_path)[2]
    system, asked, looked, failed, again, dry, offered, yes = (message.wire() for message in sample.messages)
    assert system["role"] == "system"
    assert "2023" in system["content"]
    assert asked["content"].startswith("A table for Ann")
    assert (looked["content"], looked["tool_calls"][0]["id"]) == ("Let me look.", "call00002")
    assert json.loads(looked["tool_calls"][0]["function"]["arguments"]) == {"town": "Köln", "days": "3"}
    assert failed["tool_call_id"] == "call00002"
    assert json.loads(failed["content"]) == {"output": None, "exception": "no such town"}
    assert (again["content"], dry["content"]) == ("", '"dry"')
    assert offered["content"] == "It is dry.\nShall I book?"
    assert (yes["role"], yes["content"]) == ("user", "Yes.")
    assert sample.query == f"{asked['content']}\nYes."
    kept = {0, len(sample.messages) - 1}
    assert kept.isdisjoint(part.message for part in sample.long_parts)
    assert {part.message for part in sample.long_parts} == {1, 2, 3, 5, 6}


def test_the_assistants_text_is_never_last(tmp_path: Path) -> None:
    sample = _samples(tmp_path)[0]
    assert [message.role for message in sample.messages] == ["system", "user", "assistant", "user"]
    assert sample.messages[-1].content == NEXT_CALL
    assert NEXT_CALL not in sample.query
    assert [message["role"] for message in conversation([])] == ["system", "user"]


def test_level_one_describes_what_the_dialogue_calls(tmp_path: Path) -> None:
    for sample in _samples(tmp_path)[:3]:
        weather, book = (tool.wire()["function"] for tool in sample.tools)
        assert (weather["name"], book["name"]) == ("Weather", "BookTable")
        assert book["description"].startswith("Books a table. Returns: ")  # not level 3's API of this name
        assert book["parameters"]["properties"]["guests"] == {
            "type": "array",
            "items": {"type": "string"},
            "description": "The guests.",
        }


def test_level_two_describes_the_search_and_what_it_has_found(tmp_path: Path) -> None:
    search, found = _samples(tmp_path)[3:]
    assert [tool.wire()["function"]["name"] for tool in search.tools] == ["ToolSearcher"]
    assert [tool.wire()["function"]["name"] for tool in found.tools] == ["ToolSearcher", "BookTable"]
    assert found.messages[-1].content == '[{"name": "BookTable"}]'


GOLD = {"guests": ["Ann", "O'Neill"], "count": 2, "time": "2023-05-01 19:00:00"}
IN_BRACKETS = "[BookTable(guests=\"['Ann', \\\"O'Neill\\\"]\", count='2', time='2023-05-01 19:00:00')]"


@pytest.mark.parametrize(
    ("output", "error", "read_from"),
    [
        (Output(answer="", tool_calls=(call("BookTable", GOLD),)), None, "tool_calls"),
        (Output(answer="", tool_calls=(call("BookTable", GOLD),) * 2), None, "tool_calls"),
        (
            Output(answer="", tool_calls=(call("Weather", {}), call("BookTable", GOLD))),
            "API_NAME_MISMATCH",
            "tool_calls",
        ),
        (
            Output(answer=IN_BRACKETS, tool_calls=(call("BookTable", '{"guests"'),)),
            "FAILED_PARSE_API_CALL",
            "tool_calls",
        ),
        (Output(answer=IN_BRACKETS), None, "brackets"),
        (Output(answer=f"API-Request: {IN_BRACKETS} Done."), None, "brackets"),
        (Output(answer=json.dumps({"name": "BookTable", "arguments": GOLD})), None, "json"),
        (Output(answer=f"BookTable({', '.join(f'{k}={v!r}' for k, v in GOLD.items())})"), None, "python"),
        (Output(answer="[Unknown(a='x')]"), "API_NAME_MISMATCH", "brackets"),
        (Output(answer="[BookTable(guests"), "FAILED_PARSE_API_CALL", "brackets"),
        (Output(answer="[BookTable(count='2')]"), "MISS_INPUT_ARGUMENT", "brackets"),
        (Output(answer=""), "NO_API_CALL", "nowhere"),
        (Output(answer="Shall I book the table?"), "NO_API_CALL", "nowhere"),
    ],
)
def test_scores(tmp_path: Path, output: Output, error: str | None, read_from: str) -> None:
    score = SUITE.score(_samples(tmp_path)[2], output)
    assert score.values == dict.fromkeys(("api_call_match", "api_call_match_any_form"), float(error is None))
    assert (score.details["error"], score.details["read_from"]) == (error, read_from)


def test_a_call_shown_in_prose_counts_apart(tmp_path: Path) -> None:
    shown = json.dumps({"name": "BookTable", "arguments": GOLD})
    output = Output(answer=f"You can call it so:\n\n```json\n{shown}\n```")
    score = SUITE.score(_samples(tmp_path)[2], output)
    assert score.values == {"api_call_match": 0.0, "api_call_match_any_form": 1.0}
    assert (score.details["error"], score.details["read_from"]) == ("NO_API_CALL", "prose")


def test_the_description_that_was_found_decides_on_valid_parameters(tmp_path: Path) -> None:
    sample = _samples(tmp_path)[-1]
    for arguments, error in [
        ({"count": 2, "wish": "window"}, None),
        ({"count": 2, "wish": "window", "who": "Ann"}, "INVALID_INPUT_PARAMETER"),
        ({"count": 2, "wish": "window", "time": ""}, "INPUT_MISMATCH"),
    ]:
        output = Output(answer="", tool_calls=(call("BookTable", arguments),))
        assert SUITE.score(sample, output).details["error"] == error


TURN = DIALOGUES[0]["turns"][2]


@pytest.mark.parametrize(
    ("turns", "problem"),
    [
        ([{"role": "API", "api_name": "Weather"}], "'param_dict' is missing"),
        ([{**TURN, "param_dict": None}], "no call of API-Bank"),
        ([{**TURN, "api_name": "Fly"}], "no description of 'Fly'"),
        ([{"role": "System", "text": "x"}, TURN], "none of User, AI, API"),
        ([{"role": "User"}, TURN], "'text' is missing"),
    ],
)
def test_a_dialogue_of_another_shape_is_refused(tmp_path: Path, turns: Any, problem: str) -> None:
    write_api_bank(tmp_path)
    row = {"file": "odd.jsonl", "split": "level-1-given-desc", "turns": turns}
    write_lines(tmp_path / "dialogues.jsonl", [row])
    with pytest.raises(ConfigurationError, match=problem):
        SUITE.load(tmp_path)


def test_a_result_may_be_missing(tmp_path: Path) -> None:
    write_api_bank(tmp_path)
    plain = {"role": "API", "api_name": "Weather", "param_dict": {}}
    row = {
        "file": "odd.jsonl",
        "split": "level-1-given-desc",
        "turns": [plain, {**plain, "result": "dry"}, plain],
    }
    write_lines(tmp_path / "dialogues.jsonl", [row])
    last = SUITE.load(tmp_path)[-1]
    results = [message.content for message in last.messages if message.role == "tool"]
    assert results == ["null", '"dry"']


def test_two_dialogues_of_one_name_are_refused(tmp_path: Path) -> None:
    write_api_bank(tmp_path)
    write_lines(tmp_path / "dialogues.jsonl", DIALOGUES[:1] * 2)
    with pytest.raises(ConfigurationError, match="the same file name"):
        SUITE.load(tmp_path)


def test_what_is_no_release_says_how_to_get_one(tmp_path: Path) -> None:
    for path in (None, tmp_path, tmp_path / "absent"):
        with pytest.raises(ConfigurationError, match=r"git clone .* --data"):
            SUITE.load(path)
    write_lines(tmp_path / "dialogues.jsonl", DIALOGUES)
    with pytest.raises(ConfigurationError, match="describes no API"):
        SUITE.load(tmp_path)
    for content in (b"{", b"{}", b"[1]", b"\xff"):
        (tmp_path / "api_descriptions.json").write_bytes(content)
        with pytest.raises(ConfigurationError, match=r"api_descriptions\.json"):
            SUITE.load(tmp_path)


def test_sources_are_read_and_never_run(tmp_path: Path) -> None:
    folder = write_api_bank_official(tmp_path)
    assert "SystemExit" in API_FILES["add.py"]
    assert SUITE.load(folder)
    (folder / "apis" / "broken.py").write_text("class :", "utf-8")
    with pytest.raises(ConfigurationError, match=r"broken\.py"):
        SUITE.load(folder)


def _data() -> Path:
    folder = os.environ.get("ASYMSPEC_DATA")
    if not folder:
        pytest.skip("ASYMSPEC_DATA does not name a folder with api_bank/")
    return Path(folder) / "api_bank"


def test_every_call_of_the_data_scores_as_its_own_answer() -> None:
    samples = SUITE.load(_data())
    for sample, other in itertools.pairwise(samples):
        check_conversation(sample.messages)
        name, arguments = sample.gold["name"], sample.gold["arguments"]
        written = ", ".join(f"{key}='{value}'" for key, value in arguments.items())
        for output in (
            Output(answer="", tool_calls=(call(name, arguments),)),
            Output(answer=f"API-Request: [{name}({written})]"),
        ):
            assert SUITE.score(sample, output).values["api_call_match"] == 1.0, sample.id
            is_same = SUITE.score(other, output).values["api_call_match"] == 1.0
            assert is_same is (other.gold == sample.gold)
