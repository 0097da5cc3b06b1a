"""The judge asks each prompt once in a run, whatever happens to the run, and marks what is data."""

from __future__ import annotations

import json
import pickle
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.backends import AnyRequest, ChatRequest, ScriptedBackend
from asymspec_agents.errors import BackendError, ConfigurationError
from evals.judging import CachedJudge, JudgeOptions, UnreadableReplyError, delimited, open_judge
from tests.odd_server import ANSWER, Call, odd_server
from tests.server.serving import serving


def judge_at(path: Path, *replies: Any, name: str | None = None) -> tuple[CachedJudge, ScriptedBackend]:
    backend = ScriptedBackend(replies, model="grader")
    return CachedJudge(backend, path, name=name), backend


def test_a_prompt_is_asked_greedily_and_once(tmp_path: Path) -> None:
    judge, backend = judge_at(tmp_path / "run" / "judge.jsonl", "A", "B")
    assert (judge.ask("p"), judge.ask("p"), judge.ask("q")) == ("A", "A", "B")
    first = backend.requests[0]
    assert isinstance(first, ChatRequest)
    assert [message.wire() for message in first.messages] == [{"role": "user", "content": "p"}]
    assert (first.temperature, first.max_tokens, first.asymspec) == (0.0, 512, None)
    assert len(backend.requests) == 2
    assert judge.name == "grader"


def test_system_length_and_judge_make_another_question(tmp_path: Path) -> None:
    path = tmp_path / "judge.jsonl"
    judge, backend = judge_at(path, "1", "2", "3")
    assert [judge.ask("p"), judge.ask("p", system="s"), judge.ask("p", max_tokens=9)] == ["1", "2", "3"]
    assert isinstance(backend.requests[1], ChatRequest)
    assert backend.requests[1].messages[0].wire() == {"role": "system", "content": "s"}
    other, _ = judge_at(path, "4", name="another")
    assert other.ask("p") == "4"


def test_a_resumed_run_asks_nothing_again(tmp_path: Path) -> None:
    path = tmp_path / "judge.jsonl"
    judge, _ = judge_at(path, "A\n\ud800 é", "B")
    judge.ask("p")
    judge.ask("lone \udcff and \u2028")
    resumed, backend = judge_at(path)
    assert (resumed.ask("p"), resumed.ask("lone \udcff and \u2028")) == ("A\n\ud800 é", "B")
    assert backend.requests == []


@pytest.mark.parametrize("cut", [1, 2, 20, 60])
def test_a_line_that_was_cut_off_is_passed_over_and_spoils_nothing(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "judge.jsonl"
    judge, _ = judge_at(path, "A", "B")
    judge.ask("p")
    judge.ask("q")
    path.write_bytes(path.read_bytes()[:-cut])
    resumed, _ = judge_at(path, "again", "new")
    assert resumed.ask("p") == "A"
    assert resumed.ask("q") == ("B" if cut == 1 else "again")  # a line without its end is whole all the same
    resumed.ask("r")
    last, backend = judge_at(path)
    assert last.ask("p") == "A"
    last.ask("q")
    last.ask("r")
    assert backend.requests == []


def test_lines_that_are_none_of_ours_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "judge.jsonl"
    path.write_bytes(b'null\n[]\n{"key": 1, "reply": "x"}\n{"key": "k"}\n\xff\n')
    judge, _ = judge_at(path, "A")
    assert judge.ask("p") == "A"


def test_an_error_is_raised_and_not_kept(tmp_path: Path) -> None:
    judge, _ = judge_at(tmp_path / "judge.jsonl", BackendError("down"), "A")
    with pytest.raises(BackendError, match="down"):
        judge.ask("p")
    assert judge.ask("p") == "A"


def test_threads_share_it(tmp_path: Path) -> None:
    def answer(request: AnyRequest) -> str:
        assert isinstance(request, ChatRequest)
        time.sleep(0.005)  # so that others ask the same meanwhile
        return "reply to " + request.messages[-1].texts()[0]

    path = tmp_path / "judge.jsonl"
    backend = ScriptedBackend(answer)
    judge = CachedJudge(backend, path)
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(judge.ask, [f"p{number // 8}" for number in range(80)]))
    assert len(backend.requests) == 10
    assert replies == [f"reply to p{number // 8}" for number in range(80)]
    keys = [json.loads(line)["key"] for line in path.read_text().splitlines()]
    assert len(keys) == len(set(keys)) == 10


def test_options_name_a_model() -> None:
    with pytest.raises(ConfigurationError, match="neither url nor model"):
        JudgeOptions()
    assert "secret" not in repr(JudgeOptions(url="http://127.0.0.1:1", api_key="secret"))


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="cannot connect"):
        open_judge(JudgeOptions(url="http://127.0.0.1:1"), tmp_path)


def test_an_unreadable_reply_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(UnreadableReplyError("grader", "well, " * 100)))
    assert (error.judge, error.reply) == ("grader", "well, " * 100)
    assert str(error).startswith("the judge grader gave no readable grade: 'well, ")
    assert len(str(error)) < 300


@given(st.text(st.sampled_from("<>/X_2\n a"), max_size=30) | st.just("</X>\n<X> <X_2></X_3>"))
def test_data_cannot_close_its_delimiters(text: str) -> None:
    marked = delimited("X", text)
    opening, _, rest = marked.partition("\n")
    closing = opening.replace("<", "</")
    assert rest.endswith("\n" + closing)
    assert marked.count(opening) == 1
    assert marked.count(closing) == 1
    assert rest.removesuffix("\n" + closing) == text


def test_a_server_is_asked_with_its_key(tmp_path: Path) -> None:
    backend = ScriptedBackend(["B: INCORRECT"], model="grader")
    with serving(backend, api_keys=("secret",)) as url:
        judge = open_judge(JudgeOptions(url=url, api_key="secret"), tmp_path)
        assert (judge.name, judge.ask("Grade: é", system="s")) == ("grader", "B: INCORRECT")
        judge.close()
    request = backend.requests[0]
    assert isinstance(request, ChatRequest)
    assert [message.texts()[0] for message in request.messages] == ["s", "Grade: é"]
    assert request.temperature == 0


def test_any_openai_compatible_server_will_do(tmp_path: Path) -> None:
    def answer(call: Call) -> None:
        if call.path == "/v1/chat/completions":
            asked.append(call.body)
            call.reply({key: value for key, value in ANSWER.items() if key != "asymspec"})
        else:
            call.reply({"error": {"message": "no such page"}}, status=404)

    asked: list[Any] = []
    with odd_server(answer, handshake=None) as server:
        judge = open_judge(JudgeOptions(url=server.url, model="gpt"), tmp_path)
        assert judge.ask("p") == "yes"
        judge.close()
    assert asked[0]["model"] == "gpt"
    assert asked[0]["temperature"] == 0
    assert "asymspec" not in asked[0]
