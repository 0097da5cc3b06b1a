"""Answers as servers write them: this package's, vLLM's, llama.cpp's, gateways', and what is none at all."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.backends import ChatDelta, ChatResponse, Usage, collect
from asymspec_agents.errors import AsymSpecError, BackendError, ServerError
from asymspec_agents.messages import FunctionCall, ToolCall
from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.wire.answers import AnswerWriter, ChatWriter, CompletionWriter
from asymspec_agents.wire.reading import ChunkReader, read_object, read_response

TEXT = st.text(st.characters() | st.just("\ud800"), max_size=6)
CALLS = st.lists(
    st.builds(
        ToolCall,
        id=st.text("abc", min_size=1, max_size=3),
        type=st.just("function"),
        function=st.builds(
            FunctionCall, name=st.just("f"), arguments=st.sampled_from(["{}", '{"a": "\u2028"}'])
        ),
    ),
    max_size=3,
    unique_by=lambda call: str(call.id),
).map(tuple)
REPORTS = st.none() | st.builds(
    AsymSpecReport,
    drafted=st.integers(3, 9),
    accepted=st.integers(0, 3),
    accepted_per_position=st.just((1, 0)),
)


def read_stream(chunks: list[Mapping[str, Any]]) -> ChatResponse:
    """The whole answer of a stream's chunks."""
    reader = ChunkReader()
    deltas = [delta for chunk in chunks if (delta := reader.feed(chunk)) is not None]
    assert reader.is_whole
    return collect([*deltas, reader.last()])


@given(st.lists(st.tuples(TEXT, TEXT), max_size=4), CALLS, REPORTS, st.integers(0, 99), st.integers(0, 9))
def test_what_a_writer_writes_is_read_the_same_whole_and_in_chunks(
    steps: list[tuple[str, str]],
    calls: tuple[ToolCall, ...],
    report: AsymSpecReport | None,
    num_tokens: int,
    num_cached: int,
) -> None:
    deltas = [ChatDelta(content=content, reasoning=reasoning) for content, reasoning in steps]
    reason = "tool_calls" if calls else "length"
    usage = Usage(num_tokens, len(steps), num_cached)
    last = ChatDelta(tool_calls=calls, finish_reason=reason, usage=usage, report=report)
    response = collect([*deltas, last])
    whole = ChatWriter("r", "m").whole(response)
    assert read_response(read_object(json.dumps(whole))) == response
    writer = ChatWriter("r", "m")
    chunks = [*writer.opening(), *(chunk for delta in [*deltas, last] for chunk in writer.chunks(delta))]
    assert (
        read_stream(
            [read_object(json.dumps(c)) for c in [*chunks, writer.usage_chunk(usage, response.report)]]
        )
        == response
    )


@pytest.mark.parametrize("writer", [ChatWriter("r", "m"), CompletionWriter("r", "m")])
def test_both_forms_say_the_same_of_the_drafts(writer: AnswerWriter) -> None:
    """Blocks may hold more than the answer: it was cut at its limit, and so is the count of its drafts."""
    report = AsymSpecReport(drafted=9, accepted=7)
    whole = writer.whole(ChatResponse("text", (), "length", Usage(3, 5), report))
    assert writer.usage_chunk(Usage(3, 5), report)["usage"] == whole["usage"]
    assert whole["usage"]["completion_tokens_details"] == {
        "accepted_prediction_tokens": 5,
        "rejected_prediction_tokens": 2,
    }


@given(st.lists(TEXT, max_size=4), REPORTS)
def test_text_completions_are_read_the_same(texts: list[str], report: AsymSpecReport | None) -> None:
    deltas = [ChatDelta(content=text) for text in texts]
    last = ChatDelta(finish_reason="stop", usage=Usage(1, 2), report=report)
    response = collect([*deltas, last])
    assert read_response(CompletionWriter("r", "m").whole(response)) == response
    writer = CompletionWriter("r", "m")
    chunks = [chunk for delta in [*deltas, last] for chunk in writer.chunks(delta)]
    assert read_stream([*chunks, writer.usage_chunk(Usage(1, 2), None)]) == response


def whole(message: Mapping[str, Any], reason: str | None = "stop", **further: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "message": message, "finish_reason": reason}], **further}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (whole({"content": None, "refusal": "I will not"}), "I will not"),
        (whole({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}), "ab"),
        (whole({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "b"}]}), "b"),
        (whole({"content": None}), ""),
        (whole({}), ""),
        ({"choices": [{"text": "plain", "finish_reason": "length"}]}, "plain"),
        ({"choices": [{"text": None, "message": None, "finish_reason": "stop"}]}, ""),
        (whole({"content": "a"}, reason="eos_token"), "a"),
    ],
)
def test_text_is_found_wherever_a_server_puts_it(answer: Mapping[str, Any], expected: str) -> None:
    assert read_response(answer).content == expected


def test_reasoning_has_two_names() -> None:
    for name in ("reasoning", "reasoning_content"):
        assert read_response(whole({"content": "a", name: "hm"})).reasoning == "hm"
        reader = ChunkReader()
        assert reader.feed({"choices": [{"delta": {name: "hm"}}]}) == ChatDelta(reasoning="hm")


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": None}, Usage(3, 2, 0)),
        ({"prompt_tokens": 3, "prompt_tokens_details": {"cached_tokens": 1}}, Usage(3, 0, 1)),
        ({"prompt_tokens": None, "completion_tokens": "2"}, Usage(0, 0)),
        ({"prompt_tokens": -1, "completion_tokens": 1.5, "prompt_tokens_details": []}, Usage(0, 0)),
        (None, Usage(0, 0)),
        ([], Usage(0, 0)),
    ],
)
def test_usage_is_what_can_be_read_of_it(usage: object, expected: Usage) -> None:
    assert read_response(whole({"content": ""}, usage=usage)).usage == expected


CALL = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}


def test_tool_calls_of_other_servers_are_read() -> None:
    as_object = {"id": 5, "function": {"name": "f", "arguments": {"a": 1}}}
    bare = {"function": {"name": "g"}}
    calls = read_response(whole({"tool_calls": [CALL, as_object, bare]}, "function_call")).tool_calls
    assert [call.function and call.function.arguments for call in calls] == ['{"a": 1}', '{"a": 1}', "{}"]
    assert [call.id for call in calls] == ["1", None, None]


@pytest.mark.parametrize(
    "calls", ["f", {"f": 1}, [None], ["f"], [{}], [{"function": None}], [{"function": {"name": None}}]]
)
def test_tool_calls_that_are_none_are_errors_and_not_dropped(calls: object) -> None:
    with pytest.raises(BackendError, match="tool"):
        read_response(whole({"tool_calls": calls}))
    with pytest.raises(BackendError, match="tool"):
        read_stream([{"choices": [{"delta": {"tool_calls": calls}, "finish_reason": "stop"}]}])


def delta(**fields: Any) -> dict[str, Any]:
    reason = fields.pop("finish_reason", None)
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}


def piece(name: str | None = None, arguments: str | None = None, **fields: Any) -> dict[str, Any]:
    return delta(tool_calls=[{**fields, "function": {"name": name, "arguments": arguments}}])


TWO_CALLS = [("f", '{"a": 1}'), ("f", '{"b": 2}')]
CALL_STREAMS = {
    "openai": [
        piece("f", "", index=0, id="1"),
        piece(None, '{"a"', index=0),
        piece(None, ": 1}", index=0),
        piece("f", "", index=1, id="2"),
        piece(None, '{"b": 2}', index=1),
    ],
    "interleaved": [
        piece("f", '{"a"', index=0, id="1"),
        piece("f", '{"b"', index=1, id="2"),
        piece(None, ": 1}", index=0),
        piece(None, ": 2}", index=1),
    ],
    "id and name repeated": [
        piece("f", '{"a": ', index=0, id="1"),
        piece("f", "1}", index=0, id="1"),
        piece("f", '{"b": 2}', index=1, id="2"),
    ],
    "another id with every piece, a name with the first": [
        piece("f", '{"a": ', index=0, id="1"),
        piece(None, "1}", index=0, id="9"),
        piece("f", '{"b": 2}', index=1, id="2"),
    ],
    "no index": [piece("f", '{"a": ', id="1"), piece(None, "1}"), piece("f", '{"b": 2}', id="2")],
    "index 0 for all": [piece("f", '{"a": 1}', index=0, id="1"), piece("f", '{"b": 2}', index=0, id="2")],
    "all at once": [
        delta(
            tool_calls=[
                {"index": 0, "id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}},
                {"index": 1, "id": "2", "function": {"name": "f", "arguments": '{"b": 2}'}},
            ]
        )
    ],
}


@pytest.mark.parametrize("kind", CALL_STREAMS)
def test_tool_calls_in_pieces_are_put_together(kind: str) -> None:
    response = read_stream([*CALL_STREAMS[kind], delta(finish_reason="tool_calls")])
    assert [
        (c.function and c.function.name, c.function and c.function.arguments) for c in response.tool_calls
    ] == (TWO_CALLS)
    assert [call.id for call in response.tool_calls] == ["1", "2"]


def test_streams_of_other_servers_are_read() -> None:
    chunks: list[Mapping[str, Any]] = [
        {"choices": [], "prompt_filter_results": []},
        delta(role="assistant", content=None),
        {"choices": [{"delta": {"content": "a"}, "finish_reason": ""}]},
        {"choices": [{"text": "b"}]},
        {"choices": [{"delta": None, "finish_reason": "stop"}], "usage": None},
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}},
        {"choices": None},
        {"object": "ping"},
    ]
    response = read_stream(chunks)
    assert (response.content, response.usage, response.report) == ("ab", Usage(3, 2), None)


def test_an_error_in_a_stream_is_raised_with_its_number() -> None:
    for error, status in (
        ({"message": "no", "code": 503}, 503),
        ({"message": "no", "code": "engine_error", "type": "server_error"}, 500),
        ({"message": "no", "type": "invalid_request_error"}, 400),
        ("no", 500),
    ):
        with pytest.raises(ServerError, match="no") as caught:
            ChunkReader().feed({"error": error})
        assert caught.value.status == status


def test_an_unknown_end_is_an_error() -> None:
    for reason in ("content_filter", "abort", 5, ["stop"]):
        with pytest.raises(BackendError, match="finish_reason"):
            read_response(whole({"content": "a"}, reason))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["stop", "f", ""]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(
        st.sampled_from(
            ["choices", "message", "delta", "content", "tool_calls", "function", "name", "arguments", "usage",
             "finish_reason", "prompt_tokens", "asymspec", "error", "code", "message", "text", "index", "id"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=20,
)  # fmt: skip
OBJECTS = st.dictionaries(st.sampled_from(["choices", "usage", "asymspec", "error"]), JSON)
CHOICES = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.dictionaries(st.sampled_from(["delta", "message", "finish_reason"]), JSON), min_size=1
        )
    }
)


@given(OBJECTS | CHOICES)
def test_whatever_a_server_answers_is_read_or_an_error_of_ours(answer: dict[str, Any]) -> None:
    for read in (read_response, lambda chunk: read_stream([chunk, delta(finish_reason="stop")])):
        with contextlib.suppress(AsymSpecError):  # and no other exception
            assert isinstance(read(answer), ChatResponse)
