"""smolagents messages to wire messages, and edits back onto smolagents messages."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from asymspec_agents.errors import MessageError
from asymspec_agents.protocol import Edit, apply_edits
from smolagents_asymspec._compat import (
    ChatMessage,
    ChatMessageToolCall,
    ChatMessageToolCallFunction,
    MessageRole,
)
from smolagents_asymspec.convert import edit_chat_messages, to_wire
from smolagents_asymspec.images import ConversationImages, ImageEncoder

CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def images() -> ConversationImages:
    return ConversationImages(ImageEncoder())


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


def test_smolagents_roles_become_the_wires():
    roles = [
        MessageRole.SYSTEM,
        MessageRole.USER,
        MessageRole.ASSISTANT,
        MessageRole.TOOL_CALL,
        MessageRole.TOOL_RESPONSE,
    ]
    wire = to_wire([ChatMessage(role=role, content=[text("x")]) for role in roles], images())
    assert [message.role for message in wire] == ["system", "user", "assistant", "assistant", "user"]
    assert all(message.content == "x" for message in wire)


@pytest.mark.parametrize("role", ["user", MessageRole.USER])
@pytest.mark.parametrize("content", ["x", [text("x")], ["x"]])
def test_dicts_and_chat_messages_are_the_same(role, content):
    (one,) = to_wire([{"role": role, "content": content}], images())
    (two,) = to_wire([ChatMessage(role=role, content=content)], images())
    assert one == two
    assert one.wire() == {"role": "user", "content": "x"}


def test_openai_messages_with_tool_calls_pass_with_every_field():
    given = [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "1", "content": "result", "name": "f", "vendor": {"x": 1}},
    ]
    assert [message.wire() for message in to_wire(given, images())] == given


def test_tool_calls_of_a_chat_message_are_kept():
    call = ChatMessageToolCall(ChatMessageToolCallFunction('{"a": 1}', "f"), id="1", type="function")
    (wire,) = to_wire([ChatMessage(role="assistant", content=None, tool_calls=[call])], images())
    assert wire.tool_calls[0].function.arguments == '{"a": 1}'


def test_unknown_part_types_and_fields_are_kept():
    parts = [
        {"type": "input_audio", "input_audio": {"data": "abc"}},
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}},
    ]
    (wire,) = to_wire([{"role": "user", "content": parts}], images())
    assert wire.wire()["content"] == tuple(parts) or list(wire.wire()["content"]) == parts


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ("hello", "messages must be a list"),
        ({"role": "user", "content": "x"}, "messages must be a list"),
        ([{"content": "x"}], r"messages\[0\]\.role"),
        ([{"role": 3, "content": "x"}], r"messages\[0\]\.role"),
        ([7], r"messages\[0\] must be"),
        ([{"role": "user", "content": 5}], r"messages\[0\]\.content"),
        ([{"role": "user", "content": [5]}], r"messages\[0\]\.content\[0\]"),
        ([{"role": "user", "content": [{"text": "no type"}]}], r"messages\[0\]\.content\[0\]"),
        ([{"role": "user", "content": [{"type": "text", "text": 5}]}], r"messages\[0\]\.content\[0\]"),
        ([{"role": "user", "content": [{"type": "image"}]}], "an image cannot be a NoneType"),
    ],
)  # fmt: skip
def test_malformed_messages_are_named(messages, place):
    with pytest.raises(MessageError, match=place):
        to_wire(messages, images())


def test_nothing_of_the_caller_is_changed_and_images_are_not_copied():
    picture = Image.new("RGB", (3, 2), "red")
    messages = [
        {"role": "assistant", "content": "x", "tool_calls": [CALL]},
        ChatMessage(role="tool-response", content=[text("a result"), {"type": "image", "image": picture}]),
    ]  # fmt: skip
    before = copy.deepcopy(messages[0]), dict(messages[1].content[0])
    to_wire(messages, images())
    edited = edit_chat_messages(messages, [Edit(message=1, part=0, text="short")])
    assert (messages[0], messages[1].content[0]) == before
    assert edited[0] is messages[0]
    assert edited[1].content == [text("short"), {"type": "image", "image": picture}]
    assert edited[1].content[1]["image"] is picture


def test_joined_outputs_are_separate_parts_for_the_router_and_one_text_for_the_inner_model():
    observation = "Observation:\nCall id: a, tool: f:\nlong one\nCall id: b, tool: f:\nlong two"
    messages = [ChatMessage(role=MessageRole.TOOL_RESPONSE, content=[text(observation)])]
    (wire,) = to_wire(messages, None)
    assert [part.text for part in wire.content] == [
        "Observation:",
        "Call id: a, tool: f:\nlong one",
        "Call id: b, tool: f:\nlong two",
    ]
    (edited,) = edit_chat_messages(messages, [Edit(message=0, part=2, text="Call id: b, tool: f:\nshort")])
    assert edited.content == [
        text("Observation:\nCall id: a, tool: f:\nlong one\nCall id: b, tool: f:\nshort")
    ]


texts = st.text(max_size=8) | st.sampled_from(
    ["Observation:\nCall id: a, tool: f:\nx\nCall id: b, tool: g:\ny", "\ud800", "漢字😀"]
)
contents = texts | st.lists(texts.map(text) | texts, min_size=1, max_size=4)


@given(st.lists(st.tuples(st.sampled_from(list(MessageRole)), contents), max_size=5), st.data())
def test_editing_chat_messages_is_editing_their_wire_form(given, data):
    """to_wire(edit(m)) and apply(to_wire(m)) say the same, up to where parts are cut."""
    messages = [ChatMessage(role=role, content=content) for role, content in given]
    wire = to_wire(messages, None)
    places = [
        (at, part)
        for at, message in enumerate(wire)
        for part in ([None] if isinstance(message.content, str) else range(len(message.content)))
    ]
    chosen = data.draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    edits = [Edit(message=at, part=part, text=f"short {at} {part}") for at, part in chosen]
    edited = edit_chat_messages(messages, edits)
    assert ["\n".join(m.texts()) for m in to_wire(edited, None)] == [
        "\n".join(m.texts()) for m in apply_edits(wire, edits)
    ]
    assert [type(m.content) for m in edited] == [type(m.content) for m in messages]
    touched = {edit.message for edit in edits}
    assert all(edited[at] is messages[at] for at in range(len(messages)) if at not in touched)
