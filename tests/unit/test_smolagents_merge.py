"""Merging neighbours of one role says the same in both views."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.messages import ContentPart, Message, parse_messages
from asymspec_agents.protocol import Edit, apply_edits
from smolagents_asymspec.merge import merge_views

IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}


def message(role: str, content: object, **more: object) -> dict[str, object]:
    return {"role": role, "content": content, **more}


def merged(messages, edits=()):
    views = merge_views(parse_messages(messages), edits)
    return [m.wire() for m in views.full], [e.model_dump(exclude_none=True) for e in views.edits]


def test_string_contents_of_one_role_are_joined():
    full, _ = merged(
        [message("user", "a"), message("user", "b"), message("assistant", "c"), message("user", "d")]
    )
    assert full == [message("user", "a\nb"), message("assistant", "c"), message("user", "d")]


def test_an_edit_of_a_joined_text_replaces_its_part_of_it_only():
    full, edits = merged(
        [message("user", "long"), message("user", "question")], [Edit(message=0, text="short")]
    )
    assert full == [message("user", "long\nquestion")]
    assert edits == [{"message": 0, "text": "short\nquestion"}]


def test_texts_join_up_to_an_image_and_edits_find_their_part():
    given = [
        message("user", [{"type": "text", "text": "a"}, IMAGE]),
        message("user", "b"),
        message("user", "c"),
    ]
    full, edits = merged(given, [Edit(message=2, text="C"), Edit(message=0, part=1, text="[image]")])
    assert full == [message("user", [{"type": "text", "text": "a"}, IMAGE, {"type": "text", "text": "b\nc"}])]
    assert sorted(edits, key=lambda e: e["part"]) == [
        {"message": 0, "part": 1, "text": "[image]"},
        {"message": 0, "part": 2, "text": "b\nC"},
    ]


def test_messages_with_more_than_content_stay_alone():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    given = [
        message("assistant", "a"),
        message("assistant", None, tool_calls=[call]),
        message("tool", "one", tool_call_id="1"),
        message("tool", "two", tool_call_id="1"),
        message("user", "x", name="Ann"),
        message("user", "y", vendor=1),
        message("user", "z"),
    ]
    full, edits = merged(given, [Edit(message=3, text="2"), Edit(message=5, text="Y")])
    assert full == given
    assert edits == [{"message": 3, "text": "2"}, {"message": 5, "text": "Y"}]


def test_messages_that_carry_nothing_are_left_out_and_edits_keep_their_place():
    given = [message("user", "a"), message("user", []), message("assistant", ""), message("assistant", "b")]
    full, edits = merged(given, [Edit(message=3, text="B")])
    assert full == [message("user", "a"), message("assistant", "b")]
    assert edits == [{"message": 1, "text": "B"}]


def test_text_parts_with_further_fields_are_not_joined():
    marked = {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}
    full, _ = merged([message("user", [marked]), message("user", "b")])
    assert full == [message("user", [marked, {"type": "text", "text": "b"}])]


texts = st.text(alphabet="ab\n漢😀", max_size=6) | st.just("\ud800")
parts = texts.map(lambda value: {"type": "text", "text": value}) | st.just(IMAGE)
contents = texts | st.lists(parts, max_size=4) | st.none()
conversations = st.lists(
    st.tuples(st.sampled_from(["system", "user", "assistant"]), contents).map(lambda pair: message(*pair)),
    max_size=8,
)


@given(conversations, st.data())
def test_merging_commutes_with_editing(given, data):
    full = parse_messages(given)
    places = [
        (at, part)
        for at, m in enumerate(full)
        if m.content is not None
        for part in ([None] if isinstance(m.content, str) else range(len(m.content)))
    ]
    chosen = data.draw(st.lists(st.sampled_from(places), unique=True)) if places else []
    edits = [
        Edit(message=at, part=part, text=f"<{at}.{part}>")
        for at, part in chosen
        if not (isinstance(full[at].content, tuple) and full[at].content[part].text == "")
        and full[at].content
    ]
    views = merge_views(full, edits)
    assert _said(apply_edits(views.full, views.edits)) == _said(apply_edits(full, edits))
    assert _said(views.full) == _said(full)
    roles = [m.role for m in views.full]
    assert all(before != after for before, after in pairwise(roles))


def _said(messages: tuple[Message, ...]) -> list[tuple[str, str]]:
    """Everything the messages say, in order, whatever the cuts between messages and parts."""
    said: list[tuple[str, str]] = []
    for m in messages:
        pieces = [ContentPart(type="text", text=m.content)] if isinstance(m.content, str) else m.content or ()
        for part in pieces:
            value = part.text if part.type == "text" else "<image>"
            if value:
                said += [(m.role, line) for line in value.split("\n") if line]
    return said
