"""Edits: applied to the full view they give the compressed one, and are derived exactly or not at all."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from asymspec_agents.errors import MessageError
from asymspec_agents.messages import Message, parse_messages
from asymspec_agents.protocol import Edit, apply_edits, derive_edits

text = st.text(st.characters(codec=None, exclude_categories=[]), max_size=10)
messages = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "tool"])},
        optional={
            "content": st.none()
            | text
            | st.lists(
                st.fixed_dictionaries({"type": st.just("text"), "text": text}, optional={"cache": st.just(1)})
                | st.just({"type": "image_url", "image_url": {"url": "data:"}})
                | st.just({"type": "text"}),
                max_size=3,
            ),
            "tool_calls": st.just([{"id": "1", "function": {"name": "f", "arguments": "{}"}}]),
        },
    ),
    max_size=4,
).map(parse_messages)


@st.composite
def edited(draw: st.DrawFn) -> tuple[tuple[Message, ...], tuple[Edit, ...]]:
    """Messages and edits that fit them, each place at most once, in any order."""
    full = draw(messages)
    places: list[tuple[int, int | None]] = []
    for index, message in enumerate(full):
        if isinstance(message.content, str):
            places.append((index, None))
        elif message.content is not None:
            places += [(index, part) for part in range(len(message.content))]
    chosen = draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    return full, tuple(Edit(message=m, part=part, text=draw(text)) for m, part in chosen)


@settings(max_examples=300, deadline=None)
@given(edited())
def test_deriving_edits_undoes_applying_them(pair: tuple[tuple[Message, ...], tuple[Edit, ...]]) -> None:
    full, edits = pair
    before = [message.wire() for message in full]
    compressed = apply_edits(full, edits)
    assert apply_edits(full, derive_edits(full, compressed)) == compressed
    assert apply_edits(full, tuple(reversed(edits))) == compressed
    assert [message.wire() for message in full] == before
    touched = {edit.message for edit in edits}
    for index, (old, new) in enumerate(zip(full, compressed, strict=True)):
        if index not in touched:
            assert new is old
        assert {k: v for k, v in new.wire().items() if k != "content"} == {
            k: v for k, v in old.wire().items() if k != "content"
        }
    for edit in edits:
        content = compressed[edit.message].content
        assert content is not None
        if isinstance(content, str):
            assert content == edit.text
        else:
            assert edit.part is not None
            assert (content[edit.part].type, content[edit.part].text) == ("text", edit.text)


@settings(max_examples=200, deadline=None)
@given(messages, messages)
def test_edits_are_derived_exactly_or_not_at_all(
    full: tuple[Message, ...], compressed: tuple[Message, ...]
) -> None:
    try:
        edits = derive_edits(full, compressed)
    except MessageError:
        return
    assert apply_edits(full, edits) == compressed


def test_an_edited_text_part_keeps_its_other_fields_and_an_image_does_not() -> None:
    parts = [
        {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}},
        {"type": "image_url", "image_url": {"url": "data:"}},
    ]
    full = parse_messages([{"role": "user", "content": parts, "name": "n"}])
    new = apply_edits(full, [Edit(message=0, part=1, text="a cat"), Edit(message=0, part=0, text="s")])
    assert new[0].wire() == {
        "role": "user",
        "name": "n",
        "content": [
            {"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}},
            {"type": "text", "text": "a cat"},
        ],
    }


@pytest.mark.parametrize(
    ("edits", "problem"),
    [
        ([(9, None)], r"edits\[0\] \(message=9, part=None\): there are only 5 messages"),
        ([(0, 0)], r"edits\[0\] \(message=0, part=0\): the content is a string"),
        ([(0, None), (0, None)], r"edits\[1\] \(message=0, part=None\): a second edit"),
        ([(1, 0), (1, 0)], r"edits\[1\] \(message=1, part=0\): a second edit"),
        ([(1, None)], "parts 0 to 1"),
        ([(1, 2)], "parts 0 to 1"),
        ([(2, None)], "no content"),
        ([(3, None)], "no content"),
        ([(4, 0)], "empty list"),
    ],
)
def test_an_edit_that_points_nowhere_is_an_error(edits: list[tuple[int, int | None]], problem: str) -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    full = parse_messages(
        [
            {"role": "user", "content": "x"},
            {"role": "user", "content": parts},
            {"role": "assistant"},
            {"role": "assistant", "content": None, "tool_calls": []},
            {"role": "user", "content": []},
        ]
    )
    with pytest.raises(MessageError, match=problem):
        apply_edits(full, [Edit(message=m, part=part, text="t") for m, part in edits])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([{"role": "user"}], []),
        ([{"role": "user", "content": "x"}], [{"role": "system", "content": "x"}]),
        ([{"role": "user", "content": "x"}], [{"role": "user", "content": "y", "name": "n"}]),
        ([{"role": "user", "content": "x"}], [{"role": "user", "content": None}]),
        ([{"role": "user", "content": "x"}], [{"role": "user", "content": [{"type": "text", "text": "x"}]}]),
        (
            [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
        ),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            [{"role": "user", "content": [{"type": "text", "text": "x", "cache": 1}]}],
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": "x"}]}],
            [{"role": "user", "content": [{"type": "text"}]}],
        ),
        ([{"role": "user", "content": [{"type": "text", "text": "x"}]}], [{"role": "user", "content": []}]),
        (
            [{"role": "assistant", "tool_calls": [{"id": "1"}]}],
            [{"role": "assistant", "tool_calls": [{"id": "2"}]}],
        ),
    ],
)
def test_what_edits_cannot_express_is_an_error(before: list[Any], after: list[Any]) -> None:
    with pytest.raises(MessageError):
        derive_edits(parse_messages(before), parse_messages(after))
