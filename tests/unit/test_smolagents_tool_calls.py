"""Tool calls in answer texts: what small models and servers without a parser really write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from smolagents_asymspec._compat import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)
from smolagents_asymspec.tool_calls import parse_tool_calls_in_text, with_parsed_tool_calls


def calls_in(text: str, **keys: str) -> list[tuple[str, object]]:
    return [(call.function.name, call.function.arguments) for call in parse_tool_calls_in_text(text, **keys)]


ONE = [("f", {"a": 1})]
TWO = [("f", {"a": 1}), ("g", {"b": [2]})]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name": "f", "arguments": {"a": 1}}', ONE),
        ('Thought: use {f} on [1].\nAction:\n{"name": "f", "arguments": {"a": 1}}\nDone.', ONE),
        ('```json\n{"name": "f", "arguments": {"a": 1}}\n```', ONE),
        ('{"name": "f", "arguments": "{\\"a\\": 1}"}', ONE),
        ('{"name": "f", "parameters": {"a": 1}}', ONE),
        ('{"id": "x", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}}', ONE),
        ("Calling tools:\n[{'id': '1', 'function': {'name': 'f', 'arguments': {'a': 1}}}]", ONE),
        ('{"name": "f", "arguments": {"a": 1,}}', ONE),
        ('[{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {"b": [2]}}]', TWO),
        ('{"name": "f", "arguments": {"a": 1}}\n{"name": "g", "arguments": {"b": [2]}}', TWO),
        ('{"tool_calls": [{"name": "f", "arguments": {"a": 1}}, {"name": "g", "arguments": {"b": [2]}}]}',
         TWO),
        (
            '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>\n'
            '<tool_call>\n{"name": "g", "arguments": {"b": [2]}}\n</tool_call>',
            TWO,
        ),
        ('<tool_call>\n{"name": "f", "arguments": {"a": 1}}', ONE),
        ('<think>maybe {"name": "no", "arguments": {}}</think>\n{"name": "f", "arguments": {"a": 1}}', ONE),
        ('The user is {"name": "Bob", "age": 3}. {"name": "f", "arguments": {"a": 1}}', ONE),
        ('{"name": "f"}', [("f", {})]),
        ('{"name": "f", "arguments": null}', [("f", {})]),
        ('{"name": "f", "arguments": {"text": "line\nbreak"}}', [("f", {"text": "line\nbreak"})]),
        ('{"name": "final_answer", "arguments": "Shanghai"}', [("final_answer", "Shanghai")]),
        ('{"name": "f", "arguments": {"calls": [{"name": "g", "arguments": {}}]}}',
         [("f", {"calls": [{"name": "g", "arguments": {}}]})]),
    ],
)  # fmt: skip
def test_calls_are_found(text, expected):
    assert calls_in(text) == expected


def test_the_models_own_keys_come_first():
    text = '{"tool": "f", "args": {"a": 1}, "name": "not this", "arguments": {}}'
    assert calls_in(text, name_key="tool", arguments_key="args") == ONE


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "the answer is empty"),
        ("  \n", "the answer is empty"),
        ("I do not know.", "no tool call was found"),
        ("[1, 2]", "no tool call was found"),
        ('{"age": 3}', "no tool call was found"),
        ('{"name": 3, "arguments": {}}', "no tool call was found"),
        ('{"name": "create", "arguments": {"items": [{"name": "pen", "arguments": {}}', "not valid JSON"),
        ('{"name": "f", "arguments": {"a": 1', "not valid JSON"),
        ("[" * 5_000, "no tool call was found"),
        ('{"name":' * 5_000, "not valid JSON"),
    ],
)
def test_what_is_missing_is_said_so_that_the_model_can_mend_it(text, reason):
    with pytest.raises(ValueError, match=reason) as raised:
        parse_tool_calls_in_text(text)
    assert '"name": "<tool>"' in str(raised.value)


@given(st.text(alphabet="{}[]\":,'nameargumts f1\\\ud800", max_size=60))
def test_any_text_gives_calls_or_a_value_error(text):
    try:
        calls = parse_tool_calls_in_text(text)
    except ValueError:
        return
    assert calls
    assert len({call.id for call in calls}) == len(calls)


def test_ids_are_unique_in_an_answer_sort_in_its_order_and_are_the_same_again():
    text = "\n".join('{"name": "f", "arguments": {}}' for _ in range(12))
    ids = [call.id for call in parse_tool_calls_in_text(text)]
    assert len(set(ids)) == 12
    assert sorted(ids) == ids
    assert ids == [call.id for call in parse_tool_calls_in_text(text)]


def test_calls_that_came_as_such_are_kept_and_their_arguments_decoded():
    call = ChatMessageToolCall(ChatMessageToolCallFunction('{"a": 1}', "f"), id="x", type="function")
    message = ChatMessage(
        role=MessageRole.USER, content='{"name": "other", "arguments": {}}', tool_calls=[call]
    )
    parsed = with_parsed_tool_calls(message, "name", "arguments")
    assert [(c.id, c.function.name, c.function.arguments) for c in parsed.tool_calls] == [
        ("x", "f", {"a": 1})
    ]
    assert parsed.role == MessageRole.ASSISTANT


@pytest.mark.parametrize("content", [None, []])
def test_an_answer_without_content_is_a_value_error_not_an_assertion(content):
    with pytest.raises(ValueError, match="empty"):
        with_parsed_tool_calls(ChatMessage(role="assistant", content=content), "name", "arguments")


def test_content_parts_are_read_as_text():
    message = ChatMessage(
        role="assistant", content=[{"type": "text", "text": '{"name": "f", "arguments": {"a": 1}}'}]
    )
    assert with_parsed_tool_calls(message, "name", "arguments").tool_calls[0].function.name == "f"
