"""LangChain messages on the wire: every kind of block, calls byte for byte, edits back in the right place."""

from __future__ import annotations

import json
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages.tool import invalid_tool_call, tool_call

from asymspec_agents.errors import MessageError
from asymspec_agents.protocol import Edit
from langchain_asymspec.convert import wire_messages, wire_tools

PNG = "iVBORw0KGgo="


def wire(*messages: BaseMessage) -> list[dict[str, Any]]:
    return [message.wire() for message in wire_messages(messages).messages]


def test_a_conversation() -> None:
    assert wire(
        SystemMessage("Be brief."),
        HumanMessage("Stock of B-77?", name="ann"),
        AIMessage("", tool_calls=[tool_call(name="stock", args={"part": "Ü-77"}, id="c1")]),
        ToolMessage("12", tool_call_id="c1", name="stock", artifact=object()),
        AIMessage("Twelve."),
    ) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Stock of B-77?", "name": "ann"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "c1",
                    "type": "function",
                    "function": {"name": "stock", "arguments": '{"part": "Ü-77"}'},
                }
            ],
        },
        {"role": "tool", "content": "12", "name": "stock", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Twelve."},
    ]


def test_other_roles() -> None:
    assert [
        message["role"]
        for message in wire(
            SystemMessage("x", additional_kwargs={"__openai_role__": "developer"}),
            ChatMessage("x", role="critic"),
            FunctionMessage("x", name="f"),
        )
    ] == ["developer", "critic", "function"]
    with pytest.raises(MessageError, match=r"messages\[1\]: a RemoveMessage"):
        wire(HumanMessage("x"), RemoveMessage(id="1"))


@pytest.mark.parametrize(
    ("arguments", "args", "sent"),
    [
        ('{"a":1}', {"a": 1}, '{"a":1}'),
        ('{"a": 1}', {"a": 2}, '{"a": 2}'),  # an approver changed the call
        ("{", {"a": 2}, '{"a": 2}'),
    ],
)
def test_arguments_are_the_models_own_characters_while_they_are_the_call(
    arguments: str, args: dict[str, int], sent: str
) -> None:
    raw = {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}
    message = AIMessage(
        "", tool_calls=[tool_call(name="f", args=args, id="c")], additional_kwargs={"tool_calls": [raw]}
    )
    assert wire(message)[0]["tool_calls"][0]["function"]["arguments"] == sent


def test_calls_that_did_not_parse_stay_calls() -> None:
    message = AIMessage("", invalid_tool_calls=[invalid_tool_call(name="f", args='{"a":', id="c", error="x")])
    (call,) = wire(message)[0]["tool_calls"]
    assert call == {"id": "c", "type": "function", "function": {"name": "f", "arguments": '{"a":'}}


@pytest.mark.parametrize(
    "message",
    [
        AIMessage("Yes.", additional_kwargs={"reasoning_content": "Hm."}),
        AIMessage([{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "Yes."}]),
        AIMessage([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Yes."}]),
    ],
)
def test_reasoning_is_a_field_of_its_own(message: AIMessage) -> None:
    """langchain-ai/langchain#35059, #37960: reasoning of vLLM's answers was dropped."""
    assert wire(message) == [{"role": "assistant", "content": "Yes.", "reasoning": "Hm."}]


@pytest.mark.parametrize(
    ("block", "part"),
    [
        ({"type": "text", "text": "x", "id": "b", "annotations": []}, "x"),
        ({"type": "text-plain", "text": "x", "mime_type": "text/plain"}, "x"),
        ({"text": "x"}, "x"),
        ({"json": {"a": "é"}}, '{"a": "é"}'),
        ("x", "x"),
        (
            {"type": "image", "base64": PNG, "mime_type": "image/png"},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ),
        (
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
            {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        ),
        (
            {"type": "input_image", "image_url": "https://x/y.png"},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        ),
        (
            {"type": "image_url", "image_url": "https://x/y.png"},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        ),
        (
            {"type": "video", "url": "https://x/y.mp4"},
            {"type": "video_url", "video_url": {"url": "https://x/y.mp4"}},
        ),
        (
            {"type": "file", "base64": PNG, "mime_type": "application/pdf"},
            {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{PNG}", "filename": "file"}},
        ),
        # What LangChain cannot write for a chat server stays as it is: the router's attachments read it.
        ({"type": "file", "url": "https://x/y.pdf"}, {"type": "file", "url": "https://x/y.pdf"}),
        (
            {"type": "document", "source": {"type": "text", "data": "x"}},
            {"type": "document", "source": {"type": "text", "data": "x"}},
        ),
        ({"type": "non_standard", "value": {"type": "odd", "k": 1}}, {"type": "odd", "k": 1}),
    ],
)
def test_blocks(block: Any, part: Any) -> None:
    content = wire(HumanMessage([block, {"type": "odd"}]))[0]["content"]
    assert content == [{"type": "text", "text": part} if isinstance(part, str) else part, {"type": "odd"}]


@pytest.mark.parametrize("block", [{"type": "text"}, {"type": "text", "text": 3}, {"k": 1}])
def test_a_block_that_cannot_be_sent_is_named(block: Any) -> None:
    with pytest.raises(MessageError, match=r"messages\[0\].content\[1\]"):
        wire(HumanMessage(["x", block]))


def test_what_is_no_json_is_named() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(MessageError, match=r"messages\[0\].tool_calls\[0\].args cannot be written"):
        wire(AIMessage("", tool_calls=[tool_call(name="f", args={"a": object()}, id="c")]))
    with pytest.raises(MessageError, match=r"content\[0\].json cannot be written as JSON \(RecursionError\)"):
        wire(HumanMessage([{"type": "json", "json": deep}]))


def test_results_inside_a_user_message_come_before_it() -> None:
    calls = [tool_call(name="f", args={}, id=identity) for identity in ("a", "b")]
    given = wire_messages(
        [
            AIMessage([{"type": "tool_use", "id": "a", "name": "f", "input": {}}], tool_calls=calls),
            HumanMessage(
                [
                    {"type": "text", "text": "and?"},
                    {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                    {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "2"}]},
                ]
            ),
        ]
    )
    assert [message.wire() for message in given.messages[1:]] == [
        {"role": "tool", "content": "1", "tool_call_id": "a"},
        {"role": "tool", "content": "2", "tool_call_id": "b"},
        {"role": "user", "content": "and?"},
    ]
    edited = given.edited([Edit(message=number, text=f"new {number}") for number in (1, 2, 3)])
    assert edited[1].content == [
        {"type": "text", "text": "new 3"},
        {"type": "tool_result", "tool_use_id": "a", "content": "new 1"},
        {"type": "tool_result", "tool_use_id": "b", "content": [{"type": "text", "text": "new 2"}]},
    ]


def test_an_edited_message_differs_in_its_content_only() -> None:
    """langchain-ai/deepagents#2873, PR #1482: images and artifacts were lost when results were shortened."""
    artifact = {"rows": [1, 2]}
    tool = ToolMessage(
        [
            {"type": "text", "text": "long", "index": 0},
            {"type": "image", "base64": PNG, "mime_type": "image/png"},
            {"type": "text", "text": "longer"},
        ],
        tool_call_id="c",
        id="m",
        name="f",
        status="error",
        artifact=artifact,
        additional_kwargs={"k": 1},
    )
    user = HumanMessage("x")
    given = wire_messages([user, tool])
    edited = given.edited([Edit(message=1, part=2, text="short")])
    assert edited[0] is user
    assert isinstance(edited[1], ToolMessage)
    assert edited[1].content == [*tool.content[:2], {"type": "text", "text": "short"}]
    assert edited[1].artifact is artifact
    assert edited[1].model_copy(update={"content": tool.content}) == tool
    assert tool.content[2] == {"type": "text", "text": "longer"}
    (_, image) = given.edited([Edit(message=1, part=1, text="[image]")])
    assert image.content[1] == {"type": "text", "text": "[image]"}


texts = st.text(st.characters(codec=None), max_size=20)  # lone surrogates too
blocks = st.one_of(
    texts,
    st.builds(lambda text: {"type": "text", "text": text}, texts),
    st.builds(lambda text: {"type": "odd", "value": text}, texts),
    st.just({"type": "reasoning", "reasoning": "r"}),
    st.just({"type": "image", "base64": PNG, "mime_type": "image/png"}),
)
contents = st.one_of(texts, st.lists(blocks, max_size=4))
messages: st.SearchStrategy[AnyMessage] = st.one_of(
    st.builds(HumanMessage, contents),
    st.builds(AIMessage, contents),
    st.builds(lambda content: ToolMessage(content, tool_call_id="c"), contents),
)


@given(st.lists(messages, max_size=5), st.data())
def test_edits_land_where_they_point(conversation: list[AnyMessage], data: st.DataObject) -> None:
    """Edited LangChain messages are, on the wire, the wire messages edited."""
    before = wire_messages(conversation)
    assert len(before.messages) == len(conversation)
    places = [
        (number, part)
        for number, message in enumerate(before.messages)
        for part in (range(len(message.content)) if isinstance(message.content, tuple) else [None])
    ]
    chosen = data.draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    edits = [Edit(message=number, part=part, text="edited") for number, part in chosen]
    after = wire_messages(before.edited(edits)).messages
    for number, (old, new) in enumerate(zip(before.messages, after, strict=True)):
        if isinstance(old.content, tuple) and new.content == "edited":  # a text alone is a string
            assert (len(old.content), chosen.count((number, 0))) == (1, 1)
        elif isinstance(old.content, tuple):
            assert isinstance(new.content, tuple)
            for part, (was, now) in enumerate(zip(old.content, new.content, strict=True)):
                assert (now.type, now.text) == ("text", "edited") if (number, part) in chosen else now == was
        else:
            assert new.content == ("edited" if (number, None) in chosen else old.content)


def test_tools() -> None:
    def stock(part: str) -> str:
        """Looks up a part.

        Args:
            part: Its number.
        """
        return part

    (tool, builtin) = wire_tools([stock, {"type": "web_search"}])
    assert tool.function is not None
    assert tool.function.name == "stock"
    assert json.dumps(dict(tool.function.parameters or {}))
    assert builtin.wire() == {"type": "web_search"}
