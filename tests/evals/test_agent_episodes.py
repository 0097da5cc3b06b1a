"""Episodes of real smolagents agents on scripted models: how they go, and how they end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from asymspec_agents.backends import ChatRequest
from asymspec_agents.errors import BackendError, ConfigurationError, ContextOverflowError
from asymspec_agents.views import ViewPolicy
from evals.agents.episode import run_episode
from evals.agents.passages import PassageIndex
from evals.agents.policy import episode_policy
from evals.agents.settings import AgentSettings
from evals.agents.tools import NO_PASSAGE, PassageSearchTool
from evals.agents.trajectory import answer_text
from evals.cells import ViewSpec
from evals.records import Output
from tests.evals.episodes import call, calls, scripted, views

NOISE = " ".join(f"In the year {1000 + at} the river rose by {at} spans and fell again." for at in range(60))
PASSAGES = (f"Orla Finch\nOrla Finch is a painter from Harrowgate. {NOISE}", "Harrowgate\nA town.")
SETTINGS = AgentSettings(max_steps=3, max_step_tokens=99, system_prompt="Search, then answer.")
POLICY = episode_policy(ViewSpec.parse("extract@0.3"), first_sight_tokens=100)
FINAL = call("final_answer", answer="Harrowgate")


def tools() -> list[PassageSearchTool]:
    return [PassageSearchTool(PassageIndex(PASSAGES))]


def run(*replies: Any, settings: AgentSettings = SETTINGS, **options: Any) -> tuple[Output, list[Any]]:
    asker, backend = scripted(*replies)
    return run_episode("Where is Orla Finch from?", tools(), asker, settings, **options), backend.requests


def test_an_agent_searches_and_answers() -> None:
    output, requests = run(call("search", query="Orla Finch"), FINAL, policy=POLICY)
    assert output.answer == "Harrowgate"
    first, last, end = output.trajectory
    assert first["calls"] == [{"name": "search", "arguments": {"query": "Orla Finch"}}]
    assert first["result"].startswith("Orla Finch\nOrla Finch is a painter from Harrowgate.")
    assert first["result_chars"] > 3_000
    assert last["error"] is None
    assert end == {"end": "answered", "agent": "tool_calling", "num_calls": 2}
    assert len(output.calls) == len(requests) == 2
    assert all(request.max_tokens == 99 for request in requests)
    json.dumps(output.model_dump())


def test_the_verifier_reads_results_compressed_as_soon_as_they_are_there() -> None:
    _, requests = run(call("search", query="Orla Finch"), FINAL, policy=POLICY)
    full, compressed = views(requests[1])
    assert NOISE in full
    assert NOISE not in compressed
    assert "painter from Harrowgate" in compressed
    assert len(compressed) < 0.6 * len(full)


def test_without_a_policy_the_askers_own_router_decides() -> None:
    asker, _ = scripted(FINAL)
    run_episode("A question?", tools(), asker, SETTINGS)
    assert asker.policies == [None]


def test_a_malformed_call_is_told_to_the_model() -> None:
    output, requests = run('{"name": "search", "arguments": {"query": "Or', FINAL)
    assert output.answer == "Harrowgate"
    assert output.trajectory[0]["error"]["type"] == "AgentParsingError"
    assert "not valid JSON" in views(requests[1])[0]


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (call("fly", to="Harrowgate"), "Unknown tool fly"),
        (call("search", words="Orla"), "words"),
        (call("search", query=3), "query"),
    ],
)
def test_a_wrong_call_is_told_to_the_model(reply: Any, message: str) -> None:
    output, requests = run(reply, FINAL)
    assert output.answer == "Harrowgate"
    step = output.trajectory[0]
    assert step["calls"][0]["name"] in ("fly", "search")
    assert message in step["error"]["message"]
    assert step["error"]["message"][:40] in views(requests[1])[0]


def test_calls_in_text_are_understood() -> None:
    text = 'I look.\n{"name": "search", "arguments": {"query": "Harrowgate"}}'
    output, _ = run(text, FINAL)
    assert output.trajectory[0]["thought"] == text
    assert output.trajectory[0]["calls"][0]["arguments"] == {"query": "Harrowgate"}
    assert "A town." in output.trajectory[0]["result"]


def test_parallel_calls_are_all_answered() -> None:
    both = calls(("search", {"query": "Orla Finch"}), ("search", {"query": "nowhere"}))
    output, requests = run(both, FINAL)
    assert [made["arguments"]["query"] for made in output.trajectory[0]["calls"]] == ["Orla Finch", "nowhere"]
    full = views(requests[1])[0]
    assert NOISE in full
    assert NO_PASSAGE in full


def test_at_the_limit_of_steps_the_model_is_asked_for_the_answer_alone() -> None:
    search = call("search", query="Harrowgate")
    output, requests = run(search, search, search, "Harrowgate.")
    assert output.answer == "Harrowgate."
    assert output.trajectory[-1] == {"end": "max_steps", "agent": "tool_calling", "num_calls": 4}
    assert "Write the answer alone" in views(requests[3])[0]
    assert not requests[3].tools


def test_a_loop_without_an_answer_has_an_empty_one() -> None:
    output, _ = run("words", "words", "words", "")
    assert output.answer == ""
    assert output.trajectory[-1]["end"] == "max_steps"


def test_an_empty_final_answer_is_none() -> None:
    output, _ = run(call("final_answer", answer=""))
    assert (output.answer, output.trajectory[-1]["end"]) == ("", "no_answer")


def test_when_the_time_is_up_no_call_begins() -> None:
    times = iter([0.0, 1.0, 2.0, 99.0, 99.0, 99.0, 99.0])
    output, requests = run(
        call("search", query="Orla"),
        call("search", query="Finch"),
        settings=AgentSettings(max_steps=3, max_seconds=50.0),
        clock=lambda: next(times),
    )
    assert output.answer == ""
    assert output.trajectory[-1]["end"] == "time"
    assert len(requests) == 2
    assert len([step for step in output.trajectory if step.get("calls")]) == 2


@pytest.mark.parametrize("num_before", [0, 2, 3])
def test_what_the_arm_raises_is_raised(num_before: int) -> None:
    error = BackendError("the server is gone")
    with pytest.raises(BackendError, match="the server is gone") as raised:
        run(*[call("search", query="Orla")] * num_before, error)  # the fourth call asks for the last words
    assert raised.value is error


def test_a_view_that_does_not_fit_is_the_arms_failure() -> None:
    with pytest.raises(ContextOverflowError):
        run(FINAL, policy=ViewPolicy(max_verifier_tokens=5))


def test_files_follow_the_task_in_every_call() -> None:
    part = {"type": "text", "text": f"[file table.txt]\n{NOISE}"}
    output, requests = run(call("search", query="Orla"), FINAL, files=[part], policy=POLICY)
    assert output.answer == "Harrowgate"
    for request in requests:
        full, compressed = views(request)
        assert full.index("Where is Orla Finch from?") < full.index(NOISE)
        assert NOISE not in compressed
        assert "Where is Orla Finch from?" in compressed


@pytest.mark.parametrize("forces_calls", [True, False])
def test_calls_are_forced_where_there_are_tools_only(forces_calls: bool) -> None:
    settings = AgentSettings(max_steps=1, forces_calls=forces_calls)
    _, requests = run(call("search", query="Orla"), "Harrowgate", settings=settings)
    assert [request.tool_choice for request in requests] == ["required" if forces_calls else None, None]
    assert [request.parallel_tool_calls for request in requests] == [False if forces_calls else None, None]


def test_counts_of_tools_are_kept() -> None:
    output, _ = run(FINAL, counts=lambda: {"replayed": 2})
    assert output.trajectory[-1]["tool_answers"] == {"replayed": 2}


CODE = AgentSettings(kind="code", max_steps=3, max_code_seconds=5, instructions="Answer in one word.")


def test_a_code_agent_runs_its_code() -> None:
    output, requests = run(
        "I look.\n<code>\nfound = search(query='Orla Finch')\nprint(found)\n</code>",
        "<code>\nfinal_answer(found.split(' from ')[1].split('.')[0])\n</code>",
        settings=CODE,
        policy=POLICY,
    )
    assert output.answer == "Harrowgate"
    assert output.trajectory[0]["calls"][0]["name"] == "python"
    assert "search(query=" in output.trajectory[0]["calls"][0]["arguments"]
    assert output.trajectory[-1]["agent"] == "code"
    full, compressed = views(requests[1])
    assert NOISE in full
    assert NOISE not in compressed
    assert isinstance(requests[0], ChatRequest)
    assert "Answer in one word." in full


@pytest.mark.parametrize(
    "code",
    ["import os\nprint(os.getcwd())", "open('/etc/passwd')", "1 / 0", "search(query='x'"],
)
def test_code_that_fails_or_is_not_allowed_is_an_error_for_the_agent(code: str) -> None:
    settings = AgentSettings(kind="code", max_steps=3)
    output, _ = run(f"<code>\n{code}\n</code>", "<code>\nfinal_answer('x')\n</code>", settings=settings)
    assert output.trajectory[0]["error"] is not None
    assert output.answer == "x"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        (" Paris ", "Paris"),
        (3, "3"),
        (2.5, "2.5"),
        (True, "True"),
        (["a", 2], "a, 2"),
        ({"b", "a"}, "a, b"),
        ({"answer": "Paris"}, "Paris"),
        ([{"type": "text", "text": "from parts"}], "from parts"),
        ([], ""),
        ({"a": 1, "b": 2}, "{'a': 1, 'b': 2}"),
    ],
)
def test_answers_of_any_type_are_text(value: Any, text: str) -> None:
    assert answer_text(value) == text


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "chess"},
        {"max_steps": 0},
        {"max_steps": True},
        {"max_step_tokens": 2.5},
        {"max_seconds": 0},
        {"max_seconds": float("nan")},
        {"max_code_seconds": -1},
    ],
)
def test_settings_are_checked(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="must be"):
        AgentSettings(**given)


@pytest.mark.parametrize(
    "given", [{"agent": "chess"}, {"max_steps": "many"}, {"max_seconds": ""}, {"forces_calls": "yes"}]
)
def test_texts_of_settings_are_checked(given: dict[str, str]) -> None:
    texts = {"agent": "code", "max_steps": "4", "max_step_tokens": "9", "max_seconds": "1.5", **given}
    with pytest.raises(ConfigurationError, match=next(iter(given))):
        AgentSettings.of_texts(**texts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("view", "expected"),
    [
        ("extract@0.3", {"ratio": 0.3, "keep_last": 0, "first_sight_tokens": 100}),
        ("extract@1", {"ratio": 0.999}),
        ("llmlingua", {"ratio": 0.3}),
        ("truncate@2000", {"max_rendition_tokens": 2_000, "first_sight_tokens": 2_000, "min_gain": 0.0}),
    ],
)
def test_views_become_policies(view: str, expected: dict[str, Any]) -> None:
    policy = episode_policy(ViewSpec.parse(view), first_sight_tokens=100)
    assert policy is not None
    assert {name: getattr(policy, name) for name in expected} == expected


@pytest.mark.parametrize("view", [None, ViewSpec("none"), ViewSpec("signature")])
def test_views_of_whole_texts_have_no_policy(view: ViewSpec | None) -> None:
    assert episode_policy(view, first_sight_tokens=100) is None
