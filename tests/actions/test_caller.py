"""Agents that write JSON, through the router and a backend: one retry, raw text kept, views right."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from asymspec_agents import AsymSpecOptions, ChatResponse, ContextRouter, ScriptedBackend, ViewPolicy
from asymspec_agents.actions import ActionCaller, Step, read_actions, result_message, tool_spec
from asymspec_agents.backends.answer import Usage
from asymspec_agents.errors import ActionError, ConfigurationError
from asymspec_agents.messages import FunctionCall, ToolCall, parse_messages
from asymspec_agents.views.turns import read_history
from tests.actions.tools import TOOLS

READ = '{"name": "read_log", "arguments": {"service": "mail"}}'
BAD = '{"name": "read_log", "arguments": {"lines": "many"}}'


def call(caller: ActionCaller, messages: list[Any], how: str) -> Step:
    return asyncio.run(caller.acall(messages)) if how == "async" else caller.call(messages)


both = pytest.mark.parametrize("how", ["sync", "async"])


@both
def test_a_bad_answer_is_tried_once_more_with_its_error_quoted(how: str) -> None:
    backend = ScriptedBackend([BAD, READ])
    caller = ActionCaller(backend, TOOLS, max_tokens=50, options=AsymSpecOptions(gamma=0.25))
    history = caller.start("What is in the log?")
    step = call(caller, history, how)
    assert (step.action.name, step.action.arguments) == ("read_log", {"service": "mail"})
    assert [message["role"] for message in step.messages] == ["assistant", "user", "assistant"]
    assert [step.messages[0]["content"], step.messages[2]["content"], step.text] == [BAD, READ, READ]
    error = step.messages[1]["content"]
    assert "'service' is a required property" in error
    assert "lines: 'many' is not of type 'integer'" in error
    assert len(history) == 2  # the caller's list is its own
    first, second = backend.requests
    assert first.max_tokens == second.max_tokens == 50
    assert second.asymspec is not None
    assert second.asymspec.gamma == 0.25
    assert [len(step.responses), len(step.routed)] == [2, 2]


@both
def test_a_second_bad_answer_is_an_error_that_keeps_both(how: str) -> None:
    backend = ScriptedBackend([BAD, "nothing"])
    caller = ActionCaller(backend, TOOLS)
    with pytest.raises(ActionError, match="no action was found") as refused:
        call(caller, caller.start("What?"), how)
    assert refused.value.raw_text == "nothing"
    texts = [message["content"] for message in refused.value.messages if message["role"] == "assistant"]
    assert texts == [BAD, "nothing"]
    assert len(backend.requests) == 2


def test_prose_is_an_answer_where_it_may_be() -> None:
    caller = ActionCaller(ScriptedBackend(["All is well."]), TOOLS, on_prose="answer")
    step = caller.call(caller.start("How is it?"))
    assert (step.actions, step.text) == ((), "All is well.")
    with pytest.raises(ActionError, match="prose"):
        _ = step.action


def test_an_answer_that_ended_for_its_length_is_tried_again() -> None:
    def cut(text: str, reason: Literal["length", "stop"]) -> ChatResponse:
        return ChatResponse(text, (), reason, Usage(1, 1), None)

    text = '{"name": "read_log", "arguments": {"service": "mail", "lines": 12'
    backend = ScriptedBackend([cut(text, "length"), cut(READ, "stop")])
    caller = ActionCaller(backend, TOOLS)
    step = caller.call(caller.start("What?"))
    assert "ends before the action does" in step.messages[1]["content"]


def test_calls_a_server_took_out_are_written_back() -> None:
    call = ToolCall(
        id="1", type="function", function=FunctionCall(name="read_log", arguments='{"service": "mail"}')
    )
    response = ChatResponse("I look.", (call,), "tool_calls", Usage(1, 1), None)
    caller = ActionCaller(ScriptedBackend([response]), TOOLS)
    step = caller.call(caller.start("What?"))
    assert step.action.arguments == {"service": "mail"}
    assert step.text.startswith("I look.\n{")
    assert "tool_calls" not in step.messages[0]


def test_the_verifier_reads_signatures_and_the_drafter_the_documentation() -> None:
    backend = ScriptedBackend([READ])
    caller = ActionCaller(backend, TOOLS)
    step = caller.call(caller.start("What is in the log?"))
    (routed,) = step.routed
    assert "at great length" in routed.full[0].texts()[0]
    short = routed.compressed[0].texts()[0]
    assert "at great length" not in short
    assert '"service"' in short
    assert backend.requests[0].messages == routed.full  # type: ignore[union-attr]


LOG = "\n".join(f"12:{n // 60:02}:{n % 60:02} mail: request {n} served" for n in range(900))


def test_results_are_compressed_for_what_asked_and_the_call_stays() -> None:
    log = LOG.replace("request 432 served", "request 432 FAILED on disk seven")
    asked = '{"name": "read_log", "arguments": {"service": "disk seven"}}'
    messages = [
        {"role": "user", "content": "Which request failed?"},
        {"role": "assistant", "content": f"I look.\n{asked}"},
        result_message([log]),
    ]
    routed = ContextRouter(ViewPolicy(keep_last=0, min_part_tokens=5)).route(messages)
    assert routed.compressed[1] == routed.full[1]
    shown = routed.compressed[2].texts()[0]
    assert shown.startswith("Observation:")
    assert len(shown) < len(log) / 2
    assert "432 FAILED on disk seven" in shown


def test_results_know_their_tool() -> None:
    policy = ViewPolicy(tool_kinds={"read_log": "verbatim"})
    messages = [
        {"role": "user", "content": "Which request failed?"},
        {"role": "assistant", "content": READ},
        result_message([LOG]),
        {"role": "assistant", "content": "{'tool': 'other', 'args': {}}"},
        result_message([LOG]),
    ]
    routed = ContextRouter(policy).route(messages)
    assert [edit.message for edit in routed.edits] == [4]


def test_several_results_are_parts_of_one_message_and_each_a_result() -> None:
    policy = ViewPolicy()
    two = f"[{READ}, {READ}]"
    messages = parse_messages(
        [
            {"role": "user", "content": "Which?"},
            {"role": "assistant", "content": two},
            result_message([LOG, {"a": 1}]),
        ]
    )
    history = read_history(
        messages, policy.observation_markers, policy.call_markers, call_patterns=policy.call_patterns
    )
    assert [part.kind for part in history.parts] == ["user", "call", "result", "result"]
    assert [part.tool for part in history.parts[2:]] == ["read_log", "read_log"]
    assert history.user_messages == (0,)
    assert messages[2].texts()[1] == 'Observation:\n{"a": 1}'


def test_an_error_shown_to_the_model_is_no_word_of_the_user() -> None:
    backend = ScriptedBackend([BAD, READ])
    caller = ActionCaller(backend, TOOLS)
    step = caller.call(caller.start("What is in the log?"))
    assert step.routed[1].report.num_turns == 1


def test_functions_are_tools() -> None:
    def find(place: str, limit: int = 3, *, tags: list[str] | None = None) -> str:
        """Finds things."""
        return f"{place} {limit} {tags}"

    spec = tool_spec(find).wire()["function"]
    assert (spec["name"], spec["description"]) == ("find", "Finds things.")
    assert spec["parameters"]["required"] == ["place"]
    assert spec["parameters"]["properties"]["limit"] == {"type": "integer", "default": 3}
    answer = json.dumps({"name": "find", "arguments": {"place": "x", "limit": "5", "tags": ["a"]}})
    caller = ActionCaller(ScriptedBackend([answer]), [find])
    assert find(**caller.call(caller.start("Find x.")).action.arguments) == "x 5 ['a']"


class Place(BaseModel):
    city: str


@dataclass
class Size:
    width: int


def build(place: Place, size: Size | None, day: date, tags: set[str], mode: Literal["a", "b"] = "a") -> str:
    """Builds."""
    return f"{place.city} {size.width if size else 0} {day.year} {sorted(tags)} {mode}"


def test_arguments_have_the_types_that_the_function_takes() -> None:
    arguments = {"place": {"city": "B"}, "size": {"width": "3"}, "day": "2024-05-06", "tags": ["y", "x"]}
    answer = json.dumps({"name": "build", "arguments": arguments})
    caller = ActionCaller(ScriptedBackend([answer]), [build])
    action = caller.call(caller.start("Build.")).action
    assert build(**action.arguments) == "B 3 2024 ['x', 'y'] a"
    assert read_actions(answer, [tool_spec(build)])[0].arguments == action.arguments


def test_what_a_parameters_type_refuses_is_told_to_the_model() -> None:
    arguments = {"place": {"city": "B"}, "size": None, "day": "soon", "tags": []}
    with pytest.raises(ActionError, match="day: "):
        read_actions(json.dumps({"name": "build", "arguments": arguments}), [tool_spec(build)])


class Opaque:
    """No JSON says what it is."""


def of_opaque(thing: Opaque) -> None: ...


def of_anything(*things: str) -> None: ...


@pytest.mark.parametrize(
    ("tool", "problem"),
    [(of_opaque, "no JSON schema"), (of_anything, r"\*things: .*by its name"), (int, "int: .*no function")],
)
def test_functions_without_a_schema_are_refused(tool: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        tool_spec(tool)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"max_token": 5}, "max_token: no field of a call"),
        ({"tool_choice": "auto"}, "tool_choice: no field of a call"),
        ({"on_prose": "sing"}, "on_prose='sing'"),
    ],
)
def test_unknown_settings_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        ActionCaller(ScriptedBackend([]), TOOLS, **fields)


@pytest.mark.parametrize("outputs", ["text", []])
def test_outputs_are_a_list(outputs: Any) -> None:
    with pytest.raises(ConfigurationError, match="outputs must be a list"):
        result_message(outputs)
