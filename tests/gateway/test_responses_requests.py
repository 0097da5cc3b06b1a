"""Responses bodies as chat bodies: everything a chat can say, and refusals that name the way out."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asymspec_agents.errors import AsymSpecError, ConfigurationError, MessageError, UnsupportedRequestError
from asymspec_agents.gateway.responses import ResponsesTranslation
from asymspec_agents.wire.failures import failure_of
from asymspec_agents.wire.requests import parse_chat


def chat(**fields: Any) -> dict[str, Any]:
    return dict(ResponsesTranslation({"model": "big", "input": "Hello", **fields}).chat_body)


def test_a_text_is_the_users_message() -> None:
    assert chat() == {"model": "big", "messages": [{"role": "user", "content": "Hello"}]}


def test_one_answers_items_are_one_message_again() -> None:
    """Reasoning, message and parallel calls of one answer, results after them, then the next answer."""
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Look."}]},
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [],
            "content": [{"type": "reasoning_text", "text": "Hm."}],
        },
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
        },
        {"type": "function_call", "id": "fc_1", "call_id": "a", "name": "read", "arguments": '{ "n" :1}'},
        {"type": "function_call", "call_id": "b", "name": "read", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "b", "output": "two"},
        {
            "type": "function_call_output",
            "call_id": "a",
            "output": [{"type": "input_text", "text": "one"}, {"type": "input_image", "image_url": "data:x"}],
        },
        {"type": "function_call", "call_id": "c", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "three"},
        {"role": "assistant", "content": "Done."},
        {"role": "assistant", "content": "Really."},
    ]
    assert chat(input=items, instructions="Be brief.")["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look."},
        {
            "role": "assistant",
            "content": "I look.",
            "reasoning": "Hm.",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{ "n" :1}'}},
                {"id": "b", "type": "function", "function": {"name": "read", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "b", "content": "two"},
        {
            "role": "tool",
            "tool_call_id": "a",
            "content": [
                {"type": "text", "text": "one"},
                {"type": "image_url", "image_url": {"url": "data:x"}},
            ],
        },
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c", "content": "three"},
        {"role": "assistant", "content": "Done."},
        {"role": "assistant", "content": "Really."},
    ]


def test_images_files_and_sounds_keep_what_they_carry() -> None:
    parts = [
        {"type": "input_text", "text": "What is this?"},
        {"type": "input_image", "image_url": "https://x/y.png", "detail": "low"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="},
        {"type": "input_file", "file_url": "https://x/a.pdf"},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]
    (message,) = chat(input=[{"role": "user", "content": parts}])["messages"]
    assert message["content"] == [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_url": "https://x/a.pdf"}},
        {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
    ]


TOOL = {
    "type": "function",
    "name": "read",
    "description": "Reads.",
    "parameters": {"type": "object", "properties": {}},
    "strict": True,
    "defer_loading": False,
}
OTHER = {"type": "function", "name": "write", "parameters": None, "strict": None}
CHAT_TOOL = {
    "type": "function",
    "function": {
        "name": "read",
        "description": "Reads.",
        "parameters": {"type": "object", "properties": {}},
        "strict": True,
    },
}


@pytest.mark.parametrize(
    ("choice", "wanted"),
    [
        ("auto", "auto"),
        ("required", "required"),
        ({"type": "function", "name": "read"}, {"type": "function", "function": {"name": "read"}}),
    ],
)
def test_tools_and_choice_have_chats_form(choice: Any, wanted: Any) -> None:
    body = chat(tools=[TOOL, OTHER], tool_choice=choice, parallel_tool_calls=False)
    assert body["tools"] == [CHAT_TOOL, {"type": "function", "function": {"name": "write"}}]
    assert (body["tool_choice"], body["parallel_tool_calls"]) == (wanted, False)


def test_allowed_tools_are_the_only_ones_offered() -> None:
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "read"}]}
    body = chat(tools=[TOOL, OTHER], tool_choice=allowed)
    assert (body["tools"], body["tool_choice"]) == ([CHAT_TOOL], "required")


def test_no_tools_are_no_empty_list() -> None:
    assert chat(tools=[], tool_choice="auto", parallel_tool_calls=True) == chat()


def test_limits_forms_and_effort_have_chats_names() -> None:
    schema = {"type": "object", "properties": {}}
    body = chat(
        max_output_tokens=50,
        temperature=0.5,
        top_p=0.9,
        reasoning={"effort": "low", "summary": "auto"},
        text={
            "format": {"type": "json_schema", "name": "x", "schema": schema, "strict": True},
            "verbosity": "low",
        },
        stream=True,
        user="u",
    )
    assert {name: body[name] for name in body if name not in ("model", "messages")} == {
        "max_tokens": 50,
        "temperature": 0.5,
        "top_p": 0.9,
        "reasoning_effort": "low",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "x", "schema": schema, "strict": True},
        },
        "verbosity": "low",
        "stream": True,
        "stream_options": {"include_usage": True},
        "user": "u",
    }
    assert chat(text={"format": {"type": "json_object"}})["response_format"] == {"type": "json_object"}


def test_what_changes_nothing_is_dropped_and_what_is_not_openais_passes() -> None:
    neutral = {
        "store": True,
        "metadata": {"a": "b"},
        "truncation": "auto",
        "background": False,
        "previous_response_id": None,
        "conversation": None,
        "include": ["reasoning.encrypted_content"],
        "top_logprobs": 0,
        "max_tool_calls": 3,
        "stream": False,
        "stream_options": {"include_obfuscation": False},
        "text": {"format": {"type": "text"}},
    }
    assert chat(**neutral) == chat()
    ours = {"asymspec": {"edits": []}, "cache_salt": "s", "session_id": "i", "stop": ["x"], "seed": 1}
    assert chat(**ours) == {**chat(), **ours}


def test_the_chat_body_is_one_that_this_packages_server_takes() -> None:
    parse_chat(chat(tools=[TOOL], tool_choice="required", max_output_tokens=5, instructions="x"))


@pytest.mark.parametrize(
    ("fields", "param", "words"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id", "send the whole conversation"),
        ({"conversation": {"id": "c"}}, "conversation", "send the whole conversation"),
        ({"background": True}, "background", "leave it out"),
        ({"prompt": {"id": "p"}}, "prompt", "send `instructions`"),
        ({"n": 2}, "n", "one request each"),
        ({"top_logprobs": 3}, "top_logprobs", "use chat completions"),
        ({"include": ["message.output_text.logprobs"]}, "include", "leave it out"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type", "a function that the client runs"),
        ({"tools": [TOOL, {"type": "mcp", "server_label": "x"}]}, "tools[1].type", "a function that the"),
        ({"tools": [{"type": "custom", "name": "x"}]}, "tools[0].type", "not a function tool"),
        ({"tools": [{**TOOL, "defer_loading": True}]}, "tools[0].defer_loading", "leave it out"),
        ({"tool_choice": {"type": "file_search"}}, "tool_choice.type", "choose a function tool"),
        ({"text": {"format": {"type": "grammar"}}}, "text.format.type", "json_schema"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type", "send the item itself"),
        ({"input": [{"type": "web_search_call", "id": "x"}]}, "input[0].type", "offer a function tool"),
        (
            {"input": [{"type": "reasoning", "summary": [], "encrypted_content": "secret"}]},
            "input[0].encrypted_content",
            "leave the item out",
        ),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}]},
            "input[0].content[0].file_id",
            "send image_url",
        ),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_way_out(
    fields: dict[str, Any], param: str, words: str
) -> None:
    with pytest.raises(UnsupportedRequestError, match=words.replace("[", r"\[")) as refused:
        chat(**fields)
    failure = failure_of(refused.value)
    assert (failure.status, failure.param) == (400, param)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"input": None}, "input is missing"),
        ({"input": []}, "input is empty"),
        ({"input": 5}, "input: must be a list"),
        ({"input": [5]}, r"input\[0\]: must be an object"),
        ({"input": [{}]}, r"input\[0\].type: must be a string"),
        ({"input": [{"role": "wizard", "content": "x"}]}, r"input\[0\].role"),
        ({"input": [{"role": "user"}]}, r"input\[0\].content: must be a list"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, r"content\[0\].text"),
        ({"input": [{"type": "function_call", "name": "x", "arguments": "{}"}]}, r"input\[0\].call_id"),
        ({"input": [{"type": "function_call_output", "call_id": "x", "output": "y"}]}, "whole conversation"),
        (
            {"input": [{"type": "reasoning", "content": [{"type": "reasoning_text", "text": "x"}]}]},
            "reasoning item without",
        ),
        ({"tools": {}, "tool_choice": "any"}, "tool_choice: must be one of"),
        ({"instructions": 5}, "instructions: must be"),
        ({"messages": []}, "messages: a field of chat completions"),
        ({"stream": "yes"}, "stream: must be"),
        (
            {"tools": [TOOL], "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [OTHER]}},
            "write",
        ),
    ],
)
def test_what_is_malformed_says_where(fields: dict[str, Any], words: str) -> None:
    with pytest.raises((MessageError, ConfigurationError), match=words) as refused:
        chat(**fields)
    assert isinstance(refused.value, AsymSpecError)
    assert failure_of(refused.value).status == 400


WHOLE: dict[str, Any] = {
    "model": "big",
    "instructions": "Be brief.",
    "input": [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": "u"}],
        },
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "b"}]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "c"}]},
        {"type": "function_call", "call_id": "d", "name": "read", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "d", "output": [{"type": "input_text", "text": "e"}]},
    ],
    "tools": [TOOL, OTHER],
    "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "read"}]},
    "text": {"format": {"type": "json_schema", "name": "x", "schema": {}}, "verbosity": "low"},
    "reasoning": {"effort": "low"},
    "include": ["reasoning.encrypted_content"],
    "metadata": {},
    "stream": True,
}
scalars = (
    st.none() | st.booleans() | st.integers(-2, 2) | st.text(max_size=3) | st.sampled_from(["function", "x"])
)
anything = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "x"]), inner)
    ),
    max_leaves=4,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in items for place in places(item, (*path, key)))]


@settings(max_examples=400)
@given(place=st.sampled_from(places(WHOLE)[1:]), value=anything)
def test_a_body_with_anything_at_any_place_is_translated_or_refused(
    place: tuple[Any, ...], value: Any
) -> None:
    fields = copy.deepcopy(WHOLE)
    holder: Any = fields
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    try:
        translation = ResponsesTranslation(fields)
    except AsymSpecError as error:
        refusal: AsymSpecError | None = error
    else:
        refusal = None
        json.dumps(translation.chat_body)
        translation.answer(b'{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}')
    assert refusal is None or failure_of(refusal).status == 400
