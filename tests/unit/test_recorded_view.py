"""How both views of a call are recorded: texts under their digests, changes with reasons, calls paired."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.messages import Message
from asymspec_agents.protocol import derive_edits
from asymspec_agents.router import ContextRouter, RoutedContext
from asymspec_agents.store import content_hash
from asymspec_agents.trace import MemoryRecorder, TextEvent, ViewEvent
from asymspec_agents.views import ViewPolicy
from asymspec_agents.views.recorded import RecordedView, recorded_view
from asymspec_agents.views.routed import RoutingReport
from tests.routing import FirstChars, QuarterCounter

LONG = "first line\n" + "another line of the log\n" * 400
CALLS = [
    {"id": "a", "type": "function", "function": {"name": "search", "arguments": '{"q": "one"}'}},
    {"id": "b", "type": "function", "function": {"name": "read", "arguments": '{"path": "x"}'}},
]
MESSAGES: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "What happened?"},
    {"role": "assistant", "content": None, "tool_calls": CALLS},
    {"role": "tool", "tool_call_id": "b", "content": LONG},
    {"role": "tool", "tool_call_id": "a", "content": "short"},
]
TOOL = {
    "type": "function",
    "function": {"name": "search", "description": "Searches. " * 60, "parameters": {}},
}


def recorder_of(**options: Any) -> tuple[ContextRouter, MemoryRecorder]:
    recorder = MemoryRecorder(**options)
    router = ContextRouter(
        ViewPolicy(keep_last=0), counter=QuarterCounter(), compressor=FirstChars(), recorder=recorder
    )
    return router, recorder


def both_views(recorded: RecordedView) -> tuple[list[list[str]], list[list[str]]]:
    """The texts of both views, read back as a viewer would."""
    full: list[list[str]] = []
    shown: list[list[str]] = []
    for message in recorded.messages:
        if message["role"] == "tools":
            continue
        parts = message["parts"]
        full.append([recorded.texts[part["digest"]] for part in parts if "digest" in part])
        shown.append(
            [
                recorded.texts[part.get("shown_digest", part.get("digest"))]
                for part in parts
                if part.get("shown_digest", part.get("digest")) is not None
            ]
        )
    return full, shown


def texts(messages: tuple[Message, ...]) -> list[list[str]]:
    return [list(message.texts()) for message in messages]


def test_a_views_texts_changes_calls_and_tools_are_recorded() -> None:
    router, recorder = recorder_of(captures_content=True)
    routed = router.route(MESSAGES, [TOOL])
    view = next(event for event in recorder.events if isinstance(event, ViewEvent))
    known = {event.digest: event.text for event in recorder.events if isinstance(event, TextEvent)}
    assert all(content_hash(text) == digest for digest, text in known.items())
    assert view.task_digest is not None
    assert known[view.task_digest] == "What happened?"
    assert view.messages is not None
    assert both_views(RecordedView(view.messages, known)) == (texts(routed.full), texts(routed.compressed))
    asked, first, second = view.messages[2:5]
    assert [call["name"] for call in asked["calls"]] == ["search", "read"]
    assert known[asked["calls"][1]["digest"]] == '{"path": "x"}'
    assert (first["result_of"], second["result_of"]) == ([2, 1], [2, 0])
    assert (first["turn"], first["kind"], first["tool"]) == (1, "result", "read")
    (part,) = first["parts"]
    assert (part["compressor"], part["tier"]) == ("first-chars", "compressed")
    assert part["tokens"] == len(LONG) // 4 + (len(LONG) % 4 > 0)
    assert part["shown_tokens"] < part["tokens"]
    assert "shown_digest" not in second["parts"][0]
    tools = view.messages[-1]
    assert (tools["role"], tools["parts"][0]["name"]) == ("tools", "search")
    assert json.loads(known[tools["parts"][0]["digest"]]) == TOOL
    assert "Searches" not in known[tools["parts"][0]["shown_digest"]]


def test_a_text_is_recorded_once_however_many_views_name_it() -> None:
    router, recorder = recorder_of(captures_content=True)
    for end in (2, 5, 5):
        router.route(MESSAGES[:end])
    digests = [event.digest for event in recorder.events if isinstance(event, TextEvent)]
    assert len(digests) == len(set(digests))
    assert sum(isinstance(event, ViewEvent) for event in recorder.events) == 3


@pytest.mark.parametrize("level", ["summary", "detail"])
def test_without_contents_no_text_is_recorded(level: Any) -> None:
    router, recorder = recorder_of(level=level)
    router.route(MESSAGES, [TOOL])
    (view,) = recorder.events
    assert isinstance(view, ViewEvent)
    dumped = view.model_dump_json()
    for text in ("What happened", "another line", "Searches", "one", "Be brief"):
        assert text not in dumped
    assert (view.messages is not None) == (level == "detail")
    assert view.elapsed_s is not None


def test_a_view_of_whole_messages_says_what_stands_for_what() -> None:
    full = tuple(
        Message(role=role, content=text) for role, text in (("system", "s"), ("user", "u"), ("user", "new"))
    )
    shown = (full[0], Message(role="user", content="summary of u"), full[2])
    report = RoutingReport(3, 0, 0, 0, 0, 9, 5, False, (), (), (), 0, 0)
    routed = RoutedContext(full, (), (), (), report, messages=shown, sources=(0, None, 2))
    recorded = recorded_view(routed)
    assert [m.get("is_left_out", False) for m in recorded.messages] == [False, True, False, False]
    assert [m.get("is_added", False) for m in recorded.messages] == [False, False, True, False]
    assert recorded.texts[recorded.messages[2]["parts"][0]["shown_digest"]] == "summary of u"


def test_only_a_result_that_names_a_call_is_paired_with_one() -> None:
    router, _ = recorder_of()
    nameless = [{**call, "id": None} for call in CALLS]
    messages = [
        {"role": "assistant", "content": None, "tool_calls": nameless},
        {"role": "user", "content": "and?"},
    ]
    recorded = recorded_view(router.route(messages))
    assert [message.get("result_of") for message in recorded.messages] == [None, None]


def test_an_image_that_the_verifier_reads_as_text_is_a_change() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    full = (Message.model_validate({"role": "user", "content": [image]}),)
    shown = (Message.model_validate({"role": "user", "content": [{"type": "text", "text": "a cat"}]}),)
    report = RoutingReport(1, 0, 1, 0, 0, 9, 5, False, (), (), (), 0, 0)
    recorded = recorded_view(RoutedContext(full, derive_edits(full, shown), (), (), report))
    (part,) = recorded.messages[0]["parts"]
    assert part["type"] == "image_url"
    assert recorded.texts[part["shown_digest"]] == "a cat"


contents = st.text(max_size=30) | st.lists(
    st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=2_000)})
    | st.fixed_dictionaries({"type": st.just("image_url"), "image_url": st.just({"url": "data:,"})}),
    max_size=3,
)
conversations = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant", "tool"]), "content": contents})
    | st.just({"role": "tool", "content": LONG})
    | st.just({"role": "assistant", "content": None, "tool_calls": CALLS}),
    max_size=7,
)


@given(conversations)
def test_both_views_can_be_read_back(messages: list[dict[str, Any]]) -> None:
    router, _ = recorder_of()
    routed = router.route(messages)
    assert both_views(recorded_view(routed)) == (texts(routed.full), texts(routed.compressed))
