"""OpenAI's own client through the gateway, without any change of its code."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import openai
import pytest

from tests.gateway.scripted import EVENTS, Got, Script, Upstream, chunk, completion
from tests.gateway.serving import LONG, WAIT_S, gateway
from tests.server.serving import HeldBackend, serving

Pair = tuple[Upstream, str]
CALLS = [
    {"id": "call_9", "type": "function", "function": {"name": "read", "arguments": '{"page": 2}'}},
    {"id": "call_10", "type": "function", "function": {"name": "read", "arguments": '{"page": 3}'}},
]
TOOLS: Any = [
    {
        "type": "function",
        "function": {
            "name": "read",
            "description": "Reads a page of the manual. " * 60,
            "parameters": {
                "type": "object",
                "properties": {"page": {"type": "integer"}},
                "required": ["page"],
            },
        },
    }
]


@pytest.fixture
def client(pair: Pair) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=pair[1] + "/v1", api_key="none", max_retries=0, timeout=WAIT_S) as client:
        yield client


def tool_calls(got: Got) -> Script:
    if not got.body.get("stream"):
        message = {"role": "assistant", "content": None, "tool_calls": CALLS, "reasoning": "Hm."}
        choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
        return Script([completion(choices=[choice], asymspec={"mode": "asymspec"})])
    deltas = [
        {"tool_calls": [{"index": index, **call, "function": {"name": "read", "arguments": ""}}]}
        for index, call in enumerate(CALLS)
    ] + [
        {"tool_calls": [{"index": index, "function": {"arguments": call["function"]["arguments"]}}]}
        for index, call in enumerate(CALLS)
    ]
    last = chunk({}, "tool_calls", asymspec={"mode": "asymspec"})
    return Script([*(chunk(delta) for delta in deltas), last, b"data: [DONE]\n\n"], headers=[EVENTS])


def test_calls_and_ids_come_as_they_were_made(pair: Pair, client: openai.OpenAI) -> None:
    pair[0].answer = tool_calls
    answer = client.chat.completions.create(model="big", messages=LONG["messages"], tools=TOOLS)
    message = answer.choices[0].message
    assert message.tool_calls is not None
    assert [call.to_dict() for call in message.tool_calls] == CALLS
    assert message.to_dict()["reasoning"] == "Hm."
    assert answer.to_dict()["asymspec"] == {"mode": "asymspec"}
    body = pair[0].calls[0].body
    assert body["tools"] == TOOLS
    assert body["asymspec"]["tools"][0]["function"]["name"] == "read"
    assert "description" not in body["asymspec"]["tools"][0]["function"]


def test_streamed_calls_are_put_together(pair: Pair, client: openai.OpenAI) -> None:
    pair[0].answer = tool_calls
    with client.chat.completions.stream(model="big", messages=LONG["messages"], tools=TOOLS) as stream:
        message = stream.get_final_completion().choices[0].message
    made = [(call.id, call.function.arguments) for call in message.tool_calls or ()]
    assert made == [(call["id"], call["function"]["arguments"]) for call in CALLS]


def test_errors_are_the_clients_own_exceptions(pair: Pair, client: openai.OpenAI) -> None:
    app = pair[0]
    kinds = {400: openai.BadRequestError, 429: openai.RateLimitError, 500: openai.InternalServerError}
    for status, kind in kinds.items():
        body = b'{"error":{"message":"because","type":"t","param":"p","code":"c"}}'
        app.answer = lambda got, status=status, body=body: Script([body], status)
        with pytest.raises(kind, match="because") as caught:
            client.chat.completions.create(model="big", messages=LONG["messages"])
        assert caught.value.code == "c"
    app.answer = lambda got: Script([b"{}"], 302, [("location", "http://127.0.0.1:1/")])
    with pytest.raises(openai.InternalServerError, match="redirect"):
        client.chat.completions.create(model="big", messages=LONG["messages"])


def test_a_client_retries_what_it_is_told_to(pair: Pair) -> None:
    app = pair[0]
    usual = app.answer
    app.answer = lambda got: (
        Script([b"{}"], 429, [("retry-after", "0")]) if len(app.calls) < 3 else usual(got)
    )
    with openai.OpenAI(base_url=pair[1] + "/v1", api_key="none", max_retries=3) as client:
        answer = client.chat.completions.create(model="big", messages=LONG["messages"])
    assert answer.choices[0].message.content == "Hello"
    assert len(app.calls) == 3


def test_many_asynchronous_calls_keep_apart(pair: Pair) -> None:
    app, url = pair

    def answer(got: Got) -> Script:
        words = [chunk({"content": f"{got.body['user']} "}, id=got.body["user"]) for _ in range(20)]
        return Script([*words, chunk({}, "stop", asymspec={}), b"data: [DONE]\n\n"], headers=[EVENTS])

    app.answer = answer

    async def ask(client: openai.AsyncOpenAI, user: str) -> tuple[str, str]:
        stream = await client.chat.completions.create(
            model="big", messages=LONG["messages"], user=user, stream=True
        )
        texts = [chunk.choices[0].delta.content or "" async for chunk in stream]
        return user, "".join(texts)

    async def all_of_them() -> list[tuple[str, str]]:
        async with openai.AsyncOpenAI(base_url=url + "/v1", api_key="none", timeout=WAIT_S) as client:
            return await asyncio.gather(*(ask(client, f"u{number}") for number in range(12)))

    for user, text in asyncio.run(all_of_them()):
        assert text.split() == [user] * 20


def test_other_endpoints(pair: Pair, client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["big"]
    assert client.models.retrieve("big").id == "big"
    assert client.completions.create(model="big", prompt="Once").usage is not None
    assert httpx.get(pair[1] + "/v1/asymspec").json()["verifier"] == "big"
    with pytest.raises(openai.NotFoundError):
        client.embeddings.create(model="big", input="a")


def test_in_front_of_this_packages_own_server() -> None:
    backend = HeldBackend(is_held=False)
    with (
        serving(backend, api_keys=("gateway-key",)) as address,
        gateway(address, upstream_key="gateway-key") as url,
        openai.OpenAI(base_url=url + "/v1", api_key="none", timeout=WAIT_S) as client,
    ):
        answer = client.chat.completions.create(model="held", messages=LONG["messages"])
        stream = client.chat.completions.create(model="held", messages=LONG["messages"], stream=True)
        streamed = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    assert answer.choices[0].message.content == streamed == "one two three "
    assert answer.to_dict()["asymspec"]["accepted"] == 3
    first, second = backend.requests
    assert first.asymspec == second.asymspec
    assert first.asymspec is not None
    assert "8123" in first.asymspec.edits[0].text
