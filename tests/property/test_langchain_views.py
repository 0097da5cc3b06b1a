"""For any conversation with calls, a compressed view of LangChain messages differs in their texts only."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from asymspec_agents import ContextRouter, ViewPolicy
from langchain_asymspec.compressed import compressed_messages
from langchain_asymspec.convert import wire_messages

IMAGE = {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}
LONG = (
    "\n".join(f"line {n}: value {n * 37 % 101}" for n in range(120)),
    json.dumps([{"id": n, "name": f"row {n}"} for n in range(120)]),
    "The belt is red and the lot is small. " * 120,
    "错误：磁盘已满。" * 300,
    "\ud800" + "x y z " * 400,
)
texts = st.one_of(st.sampled_from(LONG), st.text(st.characters(codec=None), max_size=30))


@st.composite
def conversations(draw: st.DrawFn) -> list[BaseMessage]:
    """A system prompt perhaps, a question, and turns of calls with their results in any order."""
    contents = st.one_of(
        texts, st.lists(st.one_of(texts, st.just(IMAGE), st.builds(_block, texts)), min_size=1, max_size=3)
    )
    messages: list[BaseMessage] = [SystemMessage(draw(texts))] if draw(st.booleans()) else []
    messages.append(HumanMessage(draw(contents), id="q", name=draw(st.sampled_from([None, "ann"]))))
    for turn in range(draw(st.integers(0, 5))):
        identities = [f"{turn}-{at}" for at in range(draw(st.integers(0, 3)))]
        calls = [{"name": "f", "args": {"a": draw(texts)}, "id": identity} for identity in identities]
        messages.append(
            AIMessage(draw(texts), tool_calls=calls, id=f"a{turn}", additional_kwargs={"k": turn})
        )
        for identity in draw(st.permutations(identities)):
            result = ToolMessage(
                draw(contents),
                tool_call_id=identity,
                id=f"t{identity}",
                artifact={"of": identity},
                status=draw(st.sampled_from(["success", "error"])),
            )
            messages.append(result)
        if not identities:
            messages.append(HumanMessage(draw(contents)))
    return messages


def _block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}


ROUTERS = (
    ContextRouter(ViewPolicy(first_sight_tokens=300, min_part_tokens=60, keep_last=1)),
    ContextRouter(ViewPolicy(first_sight_tokens=100, min_part_tokens=20, keep_last=0)),
)


@settings(max_examples=60)
@given(conversations(), st.sampled_from(ROUTERS))
def test_only_texts_differ(messages: list[BaseMessage], router: ContextRouter) -> None:
    before = copy.deepcopy(messages)
    wire = wire_messages(messages)
    bare = wire.without_data()
    routed = router.route(bare)
    shown = compressed_messages(wire, bare, routed)
    assert messages == before
    assert len(shown) == len(messages)
    for given_, made in zip(messages, shown, strict=True):
        assert made.model_copy(update={"content": given_.content}) == given_
        if isinstance(given_, ToolMessage):
            assert isinstance(made, ToolMessage)
            assert made.artifact is given_.artifact
        if isinstance(given_.content, list) and isinstance(made.content, list):
            for block, now in zip(given_.content, made.content, strict=True):
                if isinstance(block, dict):
                    assert isinstance(now, dict)
                    assert {**now, "text": None} == {**block, "text": None}
                else:
                    assert isinstance(now, str)
        else:
            assert type(made.content) is type(given_.content)
    again = wire_messages(shown).without_data()
    assert [message.texts() for message in again] == [message.texts() for message in routed.compressed]
