"""The openai client's Responses API against a gateway: nothing changed in it but the address."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import openai
import pytest
from pydantic import BaseModel

from tests.gateway.scripted import EVENTS, Got, Script, Upstream, chunk, chunks, completion
from tests.gateway.serving import WAIT_S, ask, eventually

TOOL: Any = {
    "type": "function",
    "name": "read",
    "parameters": {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    },
    "strict": True,
}
PAGE = "".join(f"Line {n} of the manual tells about nothing in particular.\n" for n in range(400))


def client_of(url: str) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=WAIT_S)


def test_a_response_is_created_and_streamed(pair: tuple[Upstream, str]) -> None:
    upstream, url = pair
    with client_of(url) as client:
        response = client.responses.create(model="big", input="Hello", instructions="Be brief.")
        assert (response.output_text, response.status) == ("Hello", "completed")
        assert response.usage is not None
        assert response.usage.total_tokens == 9
        assert response.model_extra is not None
        assert response.model_extra["asymspec"]["mode"] == "asymspec"
        with client.responses.stream(model="big", input="Hello") as stream:
            events = [event.type for event in stream]
            assert stream.get_final_response().output_text == "Hello"
    assert events[0] == "response.created"
    assert events[-1] == "response.completed"
    assert upstream.calls[1].body["stream_options"] == {"include_usage": True}


def test_the_asynchronous_client_streams_too(pair: tuple[Upstream, str]) -> None:
    async def run() -> str:
        async with openai.AsyncOpenAI(base_url=f"{pair[1]}/v1", api_key="none") as client:
            stream = await client.responses.create(model="big", input="Hello", stream=True)
            return "".join([e.delta async for e in stream if e.type == "response.output_text.delta"])

    assert asyncio.run(run()) == "Hello"


class Answer(BaseModel):
    port: int


def test_parsed_output_follows_the_schema_that_went_upstream(pair: tuple[Upstream, str]) -> None:
    upstream, url = pair
    upstream.answer = lambda got: Script([completion('{"port": 8123}')])
    with client_of(url) as client:
        response = client.responses.parse(model="big", input="Which port?", text_format=Answer)
    assert response.output_parsed == Answer(port=8123)
    sent = upstream.calls[0].body["response_format"]["json_schema"]
    assert (sent["name"], sent["strict"]) == ("Answer", True)


def calling(number: int, got: Got) -> Script:
    """A call of the tool with this number, in the form that was asked for."""
    function = {"name": "read", "arguments": json.dumps({"n": number})}
    call = {"id": f"call_{number}", "type": "function", "function": function}
    if got.body.get("stream"):
        pieces = [chunk({"tool_calls": [{"index": 0, **call}]}), chunk({}, "tool_calls"), b"data: [DONE]\n\n"]
        return Script([*pieces], headers=[EVENTS])
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choices = [{"index": 0, "message": message, "finish_reason": "tool_calls"}]
    return Script([completion(choices=choices)])


@pytest.mark.parametrize("streams", [False, True])
def test_a_loop_over_tools_sends_everything_back_and_both_views_go_up(
    pair: tuple[Upstream, str], streams: bool
) -> None:
    upstream, url = pair

    def answer(got: Got) -> Script:
        results = [message for message in got.body["messages"] if message["role"] == "tool"]
        if len(results) < 3:
            return calling(len(results), got)
        if got.body.get("stream"):
            return Script([*chunks("Port ", "8123")], headers=[EVENTS])
        return Script([completion("Port 8123")])

    upstream.answer = answer
    history: list[Any] = [{"role": "user", "content": "Which port does the service listen on?"}]
    with client_of(url) as client:
        for _ in range(4):
            if streams:
                with client.responses.stream(model="big", input=history, tools=[TOOL]) as stream:
                    stream.until_done()
                    response: Any = stream.get_final_response()
            else:
                response = client.responses.create(model="big", input=history, tools=[TOOL])
            history += [item.model_dump(exclude_none=True) for item in response.output]
            for item in response.output:
                if item.type == "function_call":
                    page = f"Page {json.loads(item.arguments)['n']}\n{PAGE}"
                    history.append({"type": "function_call_output", "call_id": item.call_id, "output": page})
    assert response.output_text == "Port 8123"
    last = upstream.calls[-1].body
    assert [message["role"] for message in last["messages"]] == ["user", *["assistant", "tool"] * 3]
    assert [message["tool_call_id"] for message in last["messages"][2::2]] == ["call_0", "call_1", "call_2"]
    assert {edit["message"] for edit in last["asymspec"]["edits"]} == {2, 4, 6}
    assert "Line 399" in last["messages"][2]["content"]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "input[0].type"),
    ],
)
def test_a_refusal_is_an_error_that_the_client_knows(
    pair: tuple[Upstream, str], fields: dict[str, Any], param: str
) -> None:
    upstream, url = pair
    with client_of(url) as client, pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**{"model": "big", "input": "Hello", **fields})
    assert (refused.value.param, refused.value.code) == (param, "unsupported_value")
    assert not upstream.calls


def test_an_upstreams_refusal_comes_as_it_is(pair: tuple[Upstream, str]) -> None:
    upstream, url = pair
    error = {"error": {"message": "slow down", "type": "requests", "param": None, "code": "rate_limit"}}
    upstream.answer = lambda got: Script([json.dumps(error).encode()], status=429)
    with client_of(url) as client, pytest.raises(openai.RateLimitError, match="slow down"):
        client.responses.create(model="big", input="Hello")


@pytest.mark.parametrize(
    "pieces", [[chunk({"content": "Hel"})], [chunk({"content": "Hel"}), b"data: <html>\n\n"]]
)
def test_an_upstream_that_breaks_off_ends_the_stream_with_a_failure(
    pair: tuple[Upstream, str], pieces: list[bytes]
) -> None:
    upstream, url = pair
    upstream.answer = lambda got: Script([*pieces], headers=[EVENTS], cut=True)
    with client_of(url) as client:
        events = list(client.responses.create(model="big", input="Hello", stream=True))
    last = events[-1]
    assert last.type == "response.failed"
    assert last.response.error is not None
    assert last.response.output_text == "Hel"


def test_another_method_or_a_stored_response_is_not_there(pair: tuple[Upstream, str]) -> None:
    _, url = pair
    with client_of(url) as client, pytest.raises(openai.NotFoundError):
        client.responses.retrieve("resp_1")
    assert ask(url, b'{"input": "a", "input": "b"}', "/v1/responses").status_code == 400


def test_a_client_that_leaves_ends_the_upstreams_answer(pair: tuple[Upstream, str]) -> None:
    upstream, url = pair
    upstream.answer = lambda got: Script([chunk({"content": "Hel"})], headers=[EVENTS], hang=True)
    with client_of(url) as client:
        stream = client.responses.create(model="big", input="Hello", stream=True)
        assert next(event for event in stream if event.type == "response.output_text.delta").delta == "Hel"
        stream.close()
    eventually(lambda: upstream.calls[-1].end == "left")


def test_an_upstreams_answer_that_is_none_is_a_bad_gateway(pair: tuple[Upstream, str]) -> None:
    upstream, url = pair
    upstream.answer = lambda got: Script([b'{"choices": []}'])
    answer = ask(url, {"model": "big", "input": "Hello"}, "/v1/responses")
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_broken")
