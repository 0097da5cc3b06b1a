"""Chat messages and tools: nothing given is lost, nothing malformed gets in."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from asymspec_agents.errors import MessageError
from asymspec_agents.messages import ContentPart, Message, ToolSpec, parse_messages, parse_tools

text = st.text(st.characters(codec=None, exclude_categories=[]), max_size=12)  # lone surrogates too
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=6,
)
KNOWN = {"role", "content", "name", "tool_calls", "tool_call_id", "type", "text", "id", "function"}
unknown = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(lambda k: k not in KNOWN)
    | st.sampled_from(["wire", "texts", "model_config", "cache_control", "_private", "__class__", "copy"]),
    json_values,
    max_size=2,
)


def objects(required: dict[str, st.SearchStrategy[Any]], optional: dict[str, st.SearchStrategy[Any]]) -> Any:
    """Dictionaries with these fields and unknown ones."""
    known = st.fixed_dictionaries(required, optional=optional)
    return st.tuples(unknown, known).map(lambda both: {**both[0], **both[1]})


parts = objects({"type": text}, {"text": text | st.none(), "image_url": json_values})
calls = objects(
    {},
    {
        "id": text | st.none(),
        "type": text,
        "function": objects({"name": text}, {"arguments": text | json_values}) | st.none(),
    },
)
messages = objects(
    {"role": text | st.sampled_from(["system", "user", "assistant", "tool"])},
    {
        "content": st.none() | text | st.lists(parts, max_size=3),
        "name": text | st.none(),
        "tool_calls": st.none() | st.lists(calls, max_size=3),
        "tool_call_id": text,
    },
)
tools = objects(
    {},
    {
        "type": text,
        "function": objects(
            {"name": text},
            {"description": text, "parameters": st.none() | st.dictionaries(text, json_values, max_size=3)},
        ),
    },
)


@settings(max_examples=120, deadline=None)
@given(st.lists(messages, max_size=4))
def test_messages_come_back_as_they_were_given(given_messages: list[dict[str, Any]]) -> None:
    before = json.dumps(given_messages)
    parsed = parse_messages(given_messages)
    wire = [message.wire() for message in parsed]
    assert wire == given_messages
    assert json.dumps(wire, sort_keys=True) == json.dumps(given_messages, sort_keys=True)  # 1 is not True
    assert parse_messages(parsed) == parsed
    assert all(one is other for one, other in zip(parse_messages(parsed), parsed, strict=True))
    assert parse_messages(wire) == parsed
    assert json.dumps(given_messages) == before


@settings(max_examples=60, deadline=None)
@given(st.lists(tools, max_size=3))
def test_tools_come_back_as_they_were_given(given_tools: list[dict[str, Any]]) -> None:
    wire = [tool.wire() for tool in parse_tools(given_tools)]
    assert json.dumps(wire, sort_keys=True) == json.dumps(given_tools, sort_keys=True)


def test_texts_lists_every_text_in_order() -> None:
    parsed = parse_messages(
        [
            {"role": "user", "content": "a"},
            {"role": "user", "content": ""},
            {"role": "assistant", "content": None},
            {"role": "assistant"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "b"},
                    {"type": "image_url", "image_url": {}},
                    {"type": "text", "text": "\ud83d"},
                ],
            },
        ]
    )
    assert [message.texts() for message in parsed] == [("a",), ("",), (), (), ("b", "\ud83d")]


@pytest.mark.parametrize(
    ("value", "where"),
    [
        ([{"content": "x"}], "messages[0].role: "),
        ([{"role": "user"}, {"role": 5}], "messages[1].role: must be a string, not int"),
        ([{"role": "user", "content": 5}], "messages[0].content: must be a string, not int"),
        ([{"role": "user", "content": b"x"}], "messages[0].content: must be a string, not bytes"),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": 1}]}],
            "messages[0].content[1].text: must be a string, not int",
        ),
        ([{"role": "user", "content": [{"text": "a"}]}], "messages[0].content[0].type: Field required"),
        ([{"role": "user", "content": ["a"]}], "messages[0].content[0]: "),
        ([{"role": "assistant", "tool_calls": {}}], "messages[0].tool_calls: "),
        ([{"role": "a", "tool_calls": [{"function": {}}]}], "messages[0].tool_calls[0].function.name: "),
        (["x"], "messages[0]: "),
        ("x", "messages must be a list, not str"),
        ({"role": "user"}, "messages must be a list, not dict"),
        (None, "messages must be a list, not NoneType"),
        (3, "messages must be a list, not int"),
    ],
)
def test_an_error_names_the_place(value: Any, where: str) -> None:
    with pytest.raises(MessageError) as caught:
        parse_messages(value)
    assert str(caught.value).startswith(where)


def test_an_error_keeps_the_content_to_itself() -> None:
    with pytest.raises(MessageError) as caught:
        parse_messages([{"content": "the secret"}])
    assert "secret" not in str(caught.value)


def test_tools_may_be_absent() -> None:
    assert parse_tools(None) == parse_tools([]) == ()
    with pytest.raises(MessageError, match=r"tools\[0\]\.function\.name"):
        parse_tools([{"function": {}}])
    assert ToolSpec.model_validate({}).wire() == {}


def test_messages_are_frozen() -> None:
    message = Message(role="user", content=(ContentPart(type="text", text="x"),))
    with pytest.raises(ValidationError):
        message.role = "system"
    assert message.wire() == {"role": "user", "content": [{"type": "text", "text": "x"}]}


def test_the_models_describe_themselves_as_json_schema() -> None:
    schema = Message.model_json_schema()
    assert schema["required"] == ["role"]
    assert schema["properties"]["role"]["type"] == "string"
    assert json.dumps(ToolSpec.model_json_schema())
