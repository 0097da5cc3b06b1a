"""Chat answers and streams as Responses, every object and event checked by the openai client's own types."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from asymspec_agents.errors import BackendError
from asymspec_agents.gateway.responses import ResponsesTranslation
from asymspec_agents.wire import sse
from tests.gateway.test_responses_requests import anything, places

EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
USAGE = {
    "prompt_tokens": 9,
    "completion_tokens": 4,
    "total_tokens": 13,
    "prompt_tokens_details": {"cached_tokens": 5},
    "completion_tokens_details": {"reasoning_tokens": 2},
}
REPORT = {"version": 1, "mode": "asymspec", "drafted": 3, "accepted": 2}


def translation(**fields: Any) -> ResponsesTranslation:
    return ResponsesTranslation({"model": "big", "input": "Hello", **fields})


def call(index: int | None, **fields: Any) -> dict[str, Any]:
    """A piece of a call."""
    function = {name: fields.pop(name) for name in ("name", "arguments") if name in fields}
    place = {} if index is None else {"index": index}
    return {"tool_calls": [{**place, **fields, "function": function}]}


def chunks(*deltas: dict[str, Any], reason: str | None = "stop") -> list[dict[str, Any]]:
    made = [{"id": "c", "model": "m", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    if reason is not None:
        end = {"index": 0, "delta": {}, "finish_reason": reason}
        made.append({"id": "c", "model": "m", "choices": [end], "asymspec": REPORT})
        made.append({"id": "c", "model": "m", "choices": [], "usage": USAGE})
    return made


def encoded(given: Sequence[dict[str, Any]]) -> list[bytes]:
    return [sse.event(json.dumps(chunk)) for chunk in given] + [sse.event(sse.DONE)]


def streamed(pieces: Sequence[bytes], **fields: Any) -> list[dict[str, Any]]:
    """The events of a stream, each valid and in its numbered order."""

    async def source() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    async def read() -> bytes:
        made = translation(stream=True, **fields)
        return b"".join([piece async for piece in made.events(source())])

    events = []
    for frame in asyncio.run(read()).split(b"\n\n")[:-1]:
        if frame.startswith(b":"):
            continue
        first, data = frame.split(b"\n")
        event = json.loads(data.removeprefix(b"data: "))
        assert first == b"event: " + event["type"].encode()
        EVENT.validate_python(event)
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    Response.model_validate(events[-1]["response"])
    return events


def kinds(events: Sequence[dict[str, Any]]) -> list[str]:
    return [event["type"].removeprefix("response.") for event in events]


def test_a_text_streams_as_it_comes() -> None:
    events = streamed(
        encoded(chunks({"role": "assistant", "content": ""}, {"content": "Hel"}, {"content": "lo"}))
    )
    assert kinds(events) == [
        "created",
        "in_progress",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_text.delta",
        "output_text.done",
        "content_part.done",
        "output_item.done",
        "completed",
    ]
    response = events[-1]["response"]
    assert events[0]["response"]["id"] == response["id"]
    assert response["output"] == [events[-2]["item"]]
    assert response["output"][0]["content"][0]["text"] == "Hello"
    assert (response["status"], response["store"], response["model"]) == ("completed", False, "m")
    assert response["asymspec"] == REPORT
    assert response["usage"]["input_tokens_details"]["cached_tokens"] == 5
    assert response["usage"]["output_tokens_details"]["reasoning_tokens"] == 2
    assert sum(event.get("response", {}).get("usage") is not None for event in events) == 1


def test_thought_text_and_calls_are_items_in_their_order() -> None:
    events = streamed(
        encoded(
            chunks(
                {"reasoning": "Hm"},
                {"reasoning_content": "."},
                {"content": "I look."},
                call(0, id="a", name="read"),
                call(0, arguments='{"n"'),
                call(1, id="b", name="read", arguments="{}"),
                call(0, arguments=":1}"),
                reason="tool_calls",
            )
        )
    )
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message", "function_call", "function_call"]
    assert output[0]["content"] == [{"type": "reasoning_text", "text": "Hm."}]
    assert [item["status"] for item in output] == ["completed"] * 4
    assert [(item["call_id"], item["arguments"]) for item in output[2:]] == [("a", '{"n":1}'), ("b", "{}")]
    for index, item in enumerate(output):
        own = [event for event in events if event.get("output_index") == index]
        assert own[0]["type"] == "response.output_item.added"
        assert own[-1]["item"] == item
        assert {event["item_id"] for event in own if "item_id" in event} == {item["id"]}
    assert "".join(e["delta"] for e in events if e["type"].endswith("arguments.delta")) == '{"n"{}:1}'


def test_calls_without_index_or_id_and_names_that_come_late() -> None:
    deltas = (call(None, name="read", arguments="{}"), call(0, id="x"), call(0, name="write"))
    output = streamed(encoded(chunks(*deltas, reason="tool_calls")))[-1]["response"]["output"]
    assert [item["name"] for item in output] == ["read", "write"]
    assert output[0]["call_id"].startswith("call_")
    assert output[1]["arguments"] == "{}"


@pytest.mark.parametrize(
    ("reason", "detail"), [("length", "max_output_tokens"), ("content_filter", "content_filter")]
)
def test_an_answer_cut_short_is_incomplete(reason: str, detail: str) -> None:
    events = streamed(encoded(chunks({"content": "Hel"}, reason=reason)))
    response = events[-1]["response"]
    assert events[-1]["type"] == "response.incomplete"
    assert response["incomplete_details"] == {"reason": detail}
    assert response["output"][0]["status"] == "incomplete"


def test_a_refusal_is_a_part_of_its_own() -> None:
    events = streamed(encoded(chunks({"refusal": "I "}, {"refusal": "won't."})))
    assert "refusal.done" in kinds(events)
    assert events[-1]["response"]["output"][0]["content"] == [{"type": "refusal", "refusal": "I won't."}]


def test_an_empty_answer_is_an_empty_message() -> None:
    output = streamed(encoded(chunks()))[-1]["response"]["output"]
    assert output[0]["content"][0]["text"] == ""


@pytest.mark.parametrize(
    ("pieces", "code", "words"),
    [
        (encoded(chunks({"content": "Hel"}, reason=None)), "server_error", "before its answer was whole"),
        (
            [
                *encoded(chunks({"content": "Hel"}, reason=None))[:-1],
                sse.event(json.dumps({"error": {"message": "too many", "code": "rate_limit_exceeded"}})),
                sse.event(sse.DONE),
            ],
            "rate_limit_exceeded",
            "too many",
        ),
        (
            [*encoded(chunks({"content": "Hel"}, reason=None))[:-1], b"data: no json\n\n"],
            "server_error",
            "not JSON",
        ),
        (encoded(chunks({"content": "Hel"}, {"tool_calls": "x"})), "server_error", "tool_calls"),
        (encoded(chunks({"content": "Hel"}, call(0, id="a"))), "server_error", "without a function's name"),
        (encoded(chunks({"content": "Hel"}, reason="odd")), "server_error", "finish_reason='odd'"),
    ],
    ids=range(6),
)
def test_a_failure_in_mid_stream_ends_it_and_keeps_what_there_was(
    pieces: list[bytes], code: str, words: str
) -> None:
    events = streamed(pieces)
    response = events[-1]["response"]
    assert (events[-1]["type"], response["status"]) == ("response.failed", "failed")
    assert response["error"]["code"] == code
    assert words in response["error"]["message"]
    assert response["output"][0]["content"][0]["text"] == "Hel"
    assert response["output"][0]["status"] in ("incomplete", "completed")


def test_what_keeps_a_silent_connection_open_is_passed_on() -> None:
    async def source() -> AsyncIterator[bytes]:
        yield sse.COMMENT
        for piece in encoded(chunks({"content": "x"})):
            yield piece

    async def read() -> list[bytes]:
        return [piece async for piece in translation(stream=True).events(source())]

    assert asyncio.run(read())[1] == sse.COMMENT


def completion(message: dict[str, Any], reason: str = "stop") -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}
    body = {"id": "c", "model": "m", "choices": [choice], "usage": USAGE, "asymspec": REPORT}
    return json.dumps(body).encode()


def test_a_whole_answer_has_the_same_items_as_its_stream() -> None:
    calls = [{"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"n":1}'}}]
    whole = {"reasoning": "Hm.", "content": "I look.", "tool_calls": calls}
    answer = json.loads(translation(metadata={"k": "v"}).answer(completion(whole, "tool_calls")))
    parsed = Response.model_validate(answer)
    assert parsed.output_text == "I look."
    assert (answer["metadata"], answer["asymspec"]) == ({"k": "v"}, REPORT)
    deltas = ({"reasoning": "Hm."}, {"content": "I look."}, call(0, id="a", name="read", arguments='{"n":1}'))
    last = streamed(encoded(chunks(*deltas, reason="tool_calls")))[-1]["response"]
    for one, other in zip(answer["output"], last["output"], strict=True):
        assert {**one, "id": ""} == {**other, "id": ""}
    assert answer["usage"] == last["usage"]


@pytest.mark.parametrize(
    "content", [b"{}", b'{"choices": [{"message": 5}]}', b"[]", b"<html>", completion({}, "odd")]
)
def test_what_is_no_answer_is_the_backends_error(content: bytes) -> None:
    with pytest.raises(BackendError):
        translation().answer(content)


def test_an_error_with_status_200_is_a_failed_response() -> None:
    answer = json.loads(translation().answer(b'{"error": {"message": "out of memory"}}'))
    Response.model_validate(answer)
    assert (answer["status"], answer["error"]["message"]) == ("failed", "out of memory")


texts = st.text(min_size=1, max_size=8)
deltas = st.one_of(
    st.builds(lambda text: {"content": text}, texts),
    st.builds(lambda text: {"reasoning": text}, texts),
    st.builds(lambda text: {"refusal": text}, texts),
    st.builds(
        lambda index, text: call(index, id=f"c{index}", name=f"f{index}", arguments=text),
        st.integers(0, 2),
        texts,
    ),
)


@given(given=st.lists(deltas, max_size=12), cuts=st.lists(st.integers(0, 2_000), max_size=6))
def test_any_stream_is_the_same_text_in_the_same_order_however_it_is_cut(
    given: list[dict[str, Any]], cuts: list[int]
) -> None:
    data = b"".join(encoded(chunks(*given)))
    bounds = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    pieces = [data[start:end] for start, end in itertools.pairwise(bounds)]
    events = streamed(pieces)
    output = events[-1]["response"]["output"]
    for kind, name in (("message", "content"), ("reasoning", "reasoning"), ("message", "refusal")):
        field = "refusal" if name == "refusal" else "text"
        parts = [part for item in output if item["type"] == kind for part in item["content"]]
        assert "".join(part.get(field, "") for part in parts) == "".join(d.get(name, "") for d in given)
    for index in range(3):
        pieces_of = [
            d["tool_calls"][0] for d in given if "tool_calls" in d and d["tool_calls"][0]["index"] == index
        ]
        found = [item for item in output if item.get("call_id") == f"c{index}"]
        assert [item["arguments"] for item in found] == (
            ["".join(piece["function"]["arguments"] for piece in pieces_of)] if pieces_of else []
        )
    added = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
    assert added == [item["id"] for item in output]


WHOLE = chunks(
    {"reasoning": "a"},
    {"content": "b"},
    call(0, id="c", name="read", arguments="{}"),
    reason="tool_calls",
)


@settings(max_examples=300)
@given(place=st.sampled_from(places(WHOLE)[1:]), value=anything)
def test_a_stream_with_anything_at_any_place_ends_in_its_last_event(
    place: tuple[Any, ...], value: Any
) -> None:
    given = copy.deepcopy(WHOLE)
    holder: Any = given
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = value
    events = streamed(encoded(given))  # which checks each of them
    assert events[-1]["type"] in ("response.completed", "response.failed", "response.incomplete")
