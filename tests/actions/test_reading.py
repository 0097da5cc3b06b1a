"""Actions found in what models write, and what is refused rather than guessed."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asymspec_agents.actions import read_actions
from asymspec_agents.errors import ActionError, ConfigurationError
from tests.actions.tools import FINAL, READ_LOG, TOOLS

MAIL = {"service": "mail"}


@pytest.mark.parametrize(
    "text",
    [
        '{"name": "read_log", "arguments": {"service": "mail"}}',
        'I read it.\n```json\n{"tool": "read_log", "args": {"service": "mail"}}\n```\nSee [1] and {that}.',
        '<tool_call>\n{"name": "read_log", "parameters": {"service": "mail"}}\n</tool_call>',
        '<action>{"action": "read_log", "action_input": {"service": "mail"}}</action>',
        '[{"id": "1", "function": {"name": "read_log", "arguments": {"service": "mail"}}}]',
        '{"tool_calls": [{"name": "read_log", "arguments": {"service": "mail"}}]}',
        '{"thought": "so {be} it", "action": {"name": "read_log", "arguments": {"service": "mail"}}}',
        '{"read_log": {"service": "mail"}}',
        '<think>{"name": "final_answer", "arguments": {"answer": "no"}}</think>\n'
        '{"name": "read_log", "arguments": {"service": "mail"}}',
    ],
)
def test_an_action_is_found_as_it_stands(text: str) -> None:
    (action,) = read_actions(text, TOOLS)
    assert (action.name, action.arguments, action.changes) == ("read_log", MAIL, ())


@pytest.mark.parametrize(
    ("text", "change"),
    [
        ("{'name': 'read_log', 'arguments': {'service': 'mail'}}", "Python's notation"),
        (
            '{"name": "read_log", // to see\n"arguments": {"service": "mail" /* it */}}',
            "comments were left out",
        ),
        ('{name: "read_log", arguments: {service: "mail"}}', "repaired: "),
        ('```json\n{"name": "read_log" "arguments": {"service": "mail"}}\n```\nThen {"x', "repaired: "),
        (
            '<tool_call>{"name": "read_log", // c\n"arguments": {"service": "mail"}}</tool_call>{',
            "comments were left out",
        ),
        ('{"name": "read_log", "arguments": "{\\"service\\": \\"mail\\"}"}', "JSON text"),
        ('{"name": "read_log", "arguments": {"service": "mail",}} She said "so" [1].', "a comma before"),
        ('{"name": "read_log", "arguments": "mail"}', "the only parameter"),
        ('{"tool": "read_log", "service": "mail", "why": "to see"}', "not arguments of read_log: why"),
    ],
)
def test_what_was_mended_is_said(text: str, change: str) -> None:
    (action,) = read_actions(text, TOOLS)
    assert (action.name, action.arguments) == ("read_log", MAIL)
    assert any(change in said for said in action.changes)


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        ({"lines": "12"}, {"lines": 12}),
        ({"since": "1.5"}, {"since": 1.5}),
        ({"since": "null"}, {"since": None}),
        ({"deep": "True"}, {"deep": True}),
        ({"pages": ["1", 2, "-3"]}, {"pages": [1, 2, -3]}),
        ({"pages": "[1, 2]"}, {"pages": [1, 2]}),
        ({"filter": '{"a": "b"}'}, {"filter": {"a": "b"}}),
        ({"service": 7}, {"service": "7"}),
    ],
)
def test_values_are_converted_where_nothing_is_lost(given: dict[str, Any], taken: dict[str, Any]) -> None:
    text = json.dumps({"name": "read_log", "arguments": {**MAIL, **given}})
    (action,) = read_actions(text, TOOLS)
    assert action.arguments == {**MAIL, **taken}
    assert all(type(action.arguments[name]) is type(value) for name, value in taken.items())
    assert action.changes
    assert all("was taken as" in said for said in action.changes)


@pytest.mark.parametrize(
    "arguments",
    [
        {"lines": "1.5"},
        {"lines": "012"},
        {"lines": "twelve"},
        {"lines": True},
        {"since": "0.12345678901234567890"},
        {"deep": 1},
        {"deep": "yes"},
        {"pages": "1, 2"},
        {"pages": '{"a": 1}'},
        {"service": 1.10},
        {"service": None},
        {"unknown": 1},
    ],
)
def test_values_that_would_lose_something_are_refused(arguments: dict[str, Any]) -> None:
    text = json.dumps({"name": "read_log", "arguments": {**MAIL, **arguments}})
    with pytest.raises(ActionError, match=next(iter(arguments))) as refused:
        read_actions(text, TOOLS)
    assert refused.value.raw_text == text


def test_a_repaired_number_is_no_text() -> None:
    """007 is no JSON; the repair makes 7 of it, which is another text."""
    with pytest.raises(ActionError, match="service"):
        read_actions('{"name": "read_log", "arguments": {"service": 007}}', TOOLS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the answer is empty"),
        ("The log is fine.", "no action was found"),
        ('{"name": "Bob", "age": 3}', "no action was found"),
        ('<think>I could call {"name": "final_answer", "arguments": {"answer": "x"}}', "the answer is empty"),
        ('{"name": "rm", "arguments": {}}', "no tool 'rm'; the tools are: read_log, final_answer"),
        ('{"name": "read_log", "arguments": {"service": "a", "service": "b"}}', "'service' stands twice"),
        ("{'name': 'read_log', 'arguments': {'service': 'a', 'service': 'b'}}", "'service' stands twice"),
        ('{"name": "read_log", "arguments": {"service": NaN}}', "NaN is no JSON number"),
        ('{"name": "read_log", "arguments": {"service": "a", "lines": 1e999}}', "beyond what a number"),
        ('{"name": "read_log", "arguments": {"service": "/var/lo', "ends before the action does"),
        ('{"name": "read_log", "arguments": {"service": "a[0] = {b}, c', "ends before the action does"),
        ('{"name": "read_log", "arguments": {"service": "a[0]", "lines": "1', "ends before the action does"),
        ("{'name': 'read_log', 'arguments': {'service': 'a}]", "ends before the action does"),
        ('{"name": "read_log", "arguments": {"service": "mail"\nThen', "ends before the action does"),
        ('{"name": "read_log", "arguments": []}', "must be an object"),
        ('{"name": "final_answer", "arguments": {}}', "'answer' is a required property"),
    ],
)
def test_what_is_no_action_says_why(text: str, problem: str) -> None:
    with pytest.raises(ActionError, match=problem) as refused:
        read_actions(text, TOOLS)
    assert refused.value.raw_text == text


@pytest.mark.parametrize("is_cut", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        '{"name": "read_log", "arguments": {"service": "mail", "lines": 12',
        '{"name": "read_log", "arguments": {"service": "mail", "pages": [1, 2',
        '{"name": "read_log", "arguments": {"service": "mail"',
        '{"name": "read_log", "arguments": {"service": "mail"}',
        '```json\n{"name": "read_log", "arguments": {"service": "mail"}\n```',
        '<tool_call>{"name": "read_log", "arguments": {"service": "mail", "lines": 12</tool_call>',
        '{"name": "read_log", // look "arguments": {"service": "mail"}}',
        '{"name": "read_log", "arguments": {"service": "mail"\nObservation: {}}}',
    ],
)
def test_what_its_own_brackets_do_not_close_is_never_completed(text: str, is_cut: bool) -> None:
    """`12` may have been the beginning of 1200."""
    with pytest.raises(ActionError, match="ends before the action does"):
        read_actions(text, TOOLS, is_cut=is_cut)


READ = '{"name": "read_log", "arguments": {"service": "mail"}}'


def test_what_is_left_of_a_second_action_makes_a_cut_answer_invalid() -> None:
    text = READ + '\n{"na": "read_l'
    assert len(read_actions(text, TOOLS)) == 1
    with pytest.raises(ActionError, match="ends before the action does"):
        read_actions(text, TOOLS, is_cut=True)


@pytest.mark.parametrize(
    "text",
    [
        f"I will not do it: `{READ}` is dangerous.",
        f'The page says "{READ}", which I leave alone.',
        f'The page says "please do {READ} now".',
        f"The page says “{READ}”.",
        f"{{'page': 'x', \"text\": \"{READ}\", }}".replace("'x'", "x"),
        f"{{'page': 'see {READ}', 'b': c}}",
        f"Observation: {READ}",
        f"<tool_response>\n{READ}\n</tool_response>",
        f"Tool result: fine\n{READ}",
    ],
)
def test_what_is_quoted_or_made_up_is_no_action(text: str) -> None:
    with pytest.raises(ActionError, match="no action was found"):
        read_actions(text, TOOLS)


def test_nothing_behind_a_made_up_result_is_read() -> None:
    text = f'{READ}\nObservation: all is well\n{{"name": "final_answer", "arguments": {{"answer": "x"}}}}'
    assert [action.name for action in read_actions(text, TOOLS)] == ["read_log"]


@pytest.mark.parametrize("text", [f"`{READ}`", f"```\n{READ}\n```", f'He said "so":\n\n{READ}'])
def test_quotes_around_the_whole_or_elsewhere_do_no_harm(text: str) -> None:
    assert [action.name for action in read_actions(text, TOOLS)] == ["read_log"]


def test_half_a_character_is_refused() -> None:
    with pytest.raises(ActionError, match="one half of a character"):
        read_actions(r'{"name": "read_log", "arguments": {"service": "\ud800"}}', TOOLS)


def test_several_actions_keep_their_order() -> None:
    text = "\n".join(json.dumps({"name": "read_log", "arguments": {"service": str(n)}}) for n in range(5))
    assert [action.arguments["service"] for action in read_actions(text, TOOLS)] == list("01234")


@pytest.mark.parametrize(
    "text",
    [
        '{"name": ' * 20_000,
        '{"name" ' * 20_000,
        '{"name": [' * 5_000 + "]}" * 5_000,
        "[" * 100_000,
        '{"name":"' + '"x' * 40_000,
        '{"name": "read_log", "arguments": {"service": "' + '{"' * 600 + '"}}',
        '{"name": "read_log", "arguments": {"lines": ' + "9" * 10_000 + "}}",
        "{'name': " + "(" * 5_000,
        '{"a":' * 50_000,
        '{"a": "b c' * 20_000,
        "{'a': " + "/*" * 200_000,
    ],
    ids=range(11),
)
def test_hostile_text_is_refused_in_time(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(ActionError):
        read_actions(text, TOOLS)
    assert time.process_time() - begun < 20  # unbounded, the second takes minutes


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
ANYTHING = {"type": "function", "function": {"name": "any", "parameters": {"type": "object"}}}


@given(arguments=st.dictionaries(st.text(), json_values, max_size=4), before=st.text(), after=st.text())
def test_valid_arguments_come_back_as_they_are(arguments: dict[str, Any], before: str, after: str) -> None:
    text = re.sub(r"[{\[\"'`“‘«„]|:", "", before)
    text += json.dumps({"name": "any", "arguments": arguments})
    text += after.replace("{", "").replace("[", "")
    (action,) = read_actions(text, [ANYTHING])
    assert (action.arguments, action.changes) == (arguments, ())


@settings(max_examples=300)
@given(
    text=st.text(alphabet="{}[]\"':,\\ ntrue01abc<>/`", max_size=60),
    start=st.sampled_from(("", '{"name": "any", ', '{"name": "any", "arguments": {', "{'action': ")),
)
def test_any_text_gives_actions_or_an_action_error(text: str, start: str) -> None:
    try:
        actions = read_actions(start + text, [ANYTHING])
    except ActionError as error:
        kept: ActionError | None = error
    else:
        kept = None
        assert actions
        json.dumps([action.arguments for action in actions], allow_nan=False)
    assert kept is None or kept.raw_text == start + text


@pytest.mark.parametrize(
    ("tools", "problem"),
    [
        ([], "tools is empty"),
        ([FINAL, FINAL], "a second tool of that name"),
        ([{"type": "web_search"}], "function is missing"),
        ([{"type": "function", "function": {"name": "x", "parameters": {"type": 5}}}], "no JSON schema"),
    ],
)
def test_tools_without_a_schema_are_refused(tools: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        read_actions("{}", tools)


def test_a_schema_elsewhere_is_not_fetched() -> None:
    """pytest-socket would refuse the connection with another error."""
    away = {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/schema.json"}}}
    tool = {"type": "function", "function": {"name": "away", "parameters": away}}
    with pytest.raises(ConfigurationError, match="refer to what is not in them"):
        read_actions('{"name": "away", "arguments": {"x": 1}}', [tool])


def test_the_tools_own_draft_is_used() -> None:
    """`items` as a list is draft 7's way to describe a tuple; 2020-12 has another."""
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"pair": {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]}},
    }
    tool = {"type": "function", "function": {"name": "pair", "parameters": schema}}
    (action,) = read_actions('{"name": "pair", "arguments": {"pair": ["1", "a"]}}', [tool])
    assert action.arguments == {"pair": [1, "a"]}
    assert READ_LOG["function"]["parameters"]["required"] == ["service"]
