"""The official `openai` client and `curl` against the server: every form, tools, errors, cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai")

from asymspec_agents.backends import (  # noqa: E402
    Backend,
    ChatRequest,
    ScriptedBackend,
    scripted_response,
)
from asymspec_agents.errors import BackendError, ContextOverflowError  # noqa: E402
from asymspec_agents.messages import FunctionCall, ToolCall  # noqa: E402
from asymspec_agents.protocol import AsymSpecReport  # noqa: E402
from tests.server.serving import serving  # noqa: E402

KEY = "test-key"
USER = {"role": "user", "content": "Weather in Paris?"}
TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "Weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CALLS = [
    ToolCall(
        id=f"call_{n}",
        type="function",
        function=FunctionCall(name="weather", arguments=f'{{"city": "{city}"}}'),
    )
    for n, city in enumerate(["Paris", "Rome"])
]


def reply(request: Any) -> Any:
    """Calls for a question with tools, raises what a text names, else says what it read."""
    last = request.messages[-1].texts()[0] if isinstance(request, ChatRequest) else request.prompt
    if last == "fail":
        return BackendError("out of memory")
    if last == "long":
        return ContextOverflowError("full", 9, 5)
    if isinstance(request, ChatRequest) and request.tools and request.messages[-1].role == "user":
        return scripted_response("Let me see.\n", tool_calls=CALLS)
    report = AsymSpecReport(accepted=2, drafted=3) if request.asymspec is not None else None
    return scripted_response(f"read:\n{last}\n", report=report)


@pytest.fixture(scope="module")
def scripted() -> ScriptedBackend:
    return ScriptedBackend(reply, model="org/model")


@pytest.fixture(scope="module")
def url(scripted: ScriptedBackend) -> Iterator[str]:
    with serving(scripted, api_keys=(KEY,)) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[Any]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0, timeout=60) as client:
        yield client


def run_async(url: str, use: Any, key: str = KEY) -> Any:
    """The result of `use(client)` with an asynchronous client."""

    async def run() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0, timeout=60) as client:
            return await use(client)

    return asyncio.run(run())


def test_a_plain_chat_sync_and_async(client: Any, url: str) -> None:
    asked = {"model": "org/model", "messages": [{"role": "user", "content": "Hello"}]}
    for answer in (
        client.chat.completions.create(**asked),
        run_async(url, lambda other: other.chat.completions.create(**asked)),
    ):
        assert answer.choices[0].message.role == "assistant"
        assert answer.choices[0].message.content == "read:\nHello\n"
        assert answer.choices[0].finish_reason == "stop"
        assert answer.usage.completion_tokens == 2
        assert answer.usage.prompt_tokens_details.cached_tokens == 0
        assert answer.model == "org/model"
        assert answer.id.startswith("chatcmpl-")


def test_a_stream_by_for_loop_sync_and_async(client: Any, url: str) -> None:
    asked = {
        "model": "org/model",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }

    async def chunks_of(other: Any) -> list[Any]:
        return [chunk async for chunk in await other.chat.completions.create(**asked)]

    for chunks in (list(client.chat.completions.create(**asked)), run_async(url, chunks_of)):
        *texts, usage = chunks
        assert "".join(chunk.choices[0].delta.content or "" for chunk in texts) == "read:\nHello\n"
        assert texts[0].choices[0].delta.role == "assistant"
        assert texts[-1].choices[0].finish_reason == "stop"
        assert usage.choices == []
        assert usage.usage.completion_tokens == 2


def test_the_stream_helper_puts_the_answer_together(client: Any, url: str) -> None:
    asked = {"model": "org/model", "messages": [USER], "tools": [TOOL]}
    with client.chat.completions.stream(**asked) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()

    async def final_of(other: Any) -> Any:
        async with other.chat.completions.stream(**asked) as stream:
            return await stream.get_final_completion()

    for answer in (final, run_async(url, final_of)):
        message = answer.choices[0].message
        assert message.content == "Let me see.\n"
        assert [call.function.arguments for call in message.tool_calls] == [
            '{"city": "Paris"}',
            '{"city": "Rome"}',
        ]
        assert answer.choices[0].finish_reason == "tool_calls"
    assert {"chunk", "content.delta", "content.done", "tool_calls.function.arguments.done"} <= kinds


def test_tools_in_both_forms_and_their_results(client: Any) -> None:
    asked: dict[str, Any] = {"model": "org/model", "tools": [TOOL]}
    whole = client.chat.completions.create(messages=[USER], **asked).choices[0]
    assert whole.finish_reason == "tool_calls"
    assert [(c.id, c.type, c.function.name) for c in whole.message.tool_calls] == [
        ("call_0", "function", "weather"),
        ("call_1", "function", "weather"),
    ]
    pieces: dict[int, dict[str, str]] = {}
    for chunk in client.chat.completions.create(messages=[USER], stream=True, **asked):
        for call in chunk.choices[0].delta.tool_calls or ():
            seen = pieces.setdefault(call.index, {"id": call.id, "name": call.function.name, "arguments": ""})
            seen["arguments"] += call.function.arguments
    assert [pieces[n]["arguments"] for n in (0, 1)] == [
        c.function.arguments for c in whole.message.tool_calls
    ]
    results = [{"role": "tool", "tool_call_id": c.id, "content": "rain"} for c in whole.message.tool_calls]
    after = client.chat.completions.create(messages=[USER, whole.message, *results], **asked)
    assert after.choices[0].message.content == "read:\nrain\n"


def test_asymspec_travels_in_extra_body_and_its_report_comes_back(
    client: Any, scripted: ScriptedBackend
) -> None:
    asked = {
        "model": "org/model",
        "messages": [{"role": "user", "content": "A long text"}],
        "temperature": 0,
        "extra_body": {"asymspec": {"edits": [{"message": 0, "text": "Short"}], "beta": 0.5}},
    }
    answer = client.chat.completions.create(**asked)
    assert answer.model_extra["asymspec"]["accepted"] == 2
    request = scripted.requests[-1]
    assert isinstance(request, ChatRequest)
    assert request.asymspec is not None
    assert request.asymspec.beta == 0.5
    assert request.asymspec.compressed_messages(request.messages)[0].content == "Short"
    *_, last = client.chat.completions.create(**asked, stream=True)
    assert last.model_extra["asymspec"]["drafted"] == 3
    assert last.choices[0].finish_reason == "stop"


def test_completions_in_both_forms(client: Any) -> None:
    asked = {"model": "org/model", "prompt": "Once"}
    assert client.completions.create(**asked).choices[0].text == "read:\nOnce\n"
    chunks = list(client.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks) == "read:\nOnce\n"
    compressed = client.completions.create(**asked, extra_body={"asymspec": {"prompt": "O"}})
    assert compressed.model_extra["asymspec"]["accepted"] == 2


def test_models_are_listed_and_fetched(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["org/model"]
    assert client.models.retrieve("org/model").owned_by == "asymspec-agents"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")


def test_request_ids_go_both_ways(client: Any) -> None:
    asked = {"model": "org/model", "messages": [USER], "extra_headers": {"X-Request-Id": "mine-1"}}
    raw = client.chat.completions.with_raw_response.create(**asked)
    assert raw.headers["x-request-id"] == "mine-1"
    assert raw.parse()._request_id == "mine-1"
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(**{**asked, "messages": []})
    assert caught.value.request_id == "mine-1"


@pytest.mark.parametrize(
    ("fields", "error", "param", "code"),
    [
        ({"messages": []}, "BadRequestError", "messages", "invalid_messages"),
        ({"temperature": -1}, "BadRequestError", "temperature", "invalid_value"),
        (
            {"extra_body": {"asymspec": {"edits": [], "mode": "x"}}},
            "BadRequestError",
            "asymspec.mode",
            "invalid_value",
        ),
        (
            {"messages": [{"role": "user", "content": "long"}]},
            "BadRequestError",
            "messages",
            "context_length_exceeded",
        ),
        ({"model": "other"}, "NotFoundError", "model", "model_not_found"),
        ({"messages": [{"role": "user", "content": "fail"}]}, "InternalServerError", None, "engine_error"),
    ],
)
def test_errors_are_the_clients_own_classes(
    client: Any, url: str, fields: dict[str, Any], error: str, param: str | None, code: str
) -> None:
    asked = {"model": "org/model", "messages": [USER], **fields}
    with pytest.raises(getattr(openai, error)) as caught:
        client.chat.completions.create(**asked)
    assert (caught.value.param, caught.value.code) == (param, code)
    assert caught.value.message
    with pytest.raises(getattr(openai, error)):
        run_async(url, lambda other: other.chat.completions.create(**asked))


def test_a_wrong_key_and_an_unknown_path(url: str) -> None:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="wrong", max_retries=0) as client:
        with pytest.raises(openai.AuthenticationError, match="API key is wrong"):
            client.models.list()
        with pytest.raises(openai.AuthenticationError):
            client.chat.completions.create(model="org/model", messages=[USER], stream=True)
    with (
        openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as client,
        pytest.raises(openai.NotFoundError),
    ):
        client.chat.completions.create(model="org/model", messages=[USER])


def test_an_error_in_mid_stream_is_raised(client: Any, url: str) -> None:
    asked = {"model": "org/model", "messages": [{"role": "user", "content": "fail"}], "stream": True}
    with pytest.raises(openai.APIError, match="out of memory") as caught:
        list(client.chat.completions.create(**asked))
    assert caught.value.code == "engine_error"

    async def read(other: Any) -> list[Any]:
        return [chunk async for chunk in await other.chat.completions.create(**asked)]

    with pytest.raises(openai.APIError, match="out of memory"):
        run_async(url, read)


def test_any_backend_may_be_served() -> None:
    """A server over a client of a server: what a gateway is."""
    from asymspec_agents.backends import HTTPBackend

    inner = ScriptedBackend(reply, model="org/model")
    with serving(inner) as inner_url:
        backend: Backend = HTTPBackend(inner_url)
        with (
            serving({"org/model": backend}) as outer_url,
            openai.OpenAI(base_url=f"{outer_url}/v1", api_key="x", max_retries=0) as client,
        ):
            asked: dict[str, Any] = {"model": "org/model", "messages": [USER], "tools": [TOOL]}
            answer = client.chat.completions.create(**asked)
            assert len(answer.choices[0].message.tool_calls) == 2
            asked["messages"] = [{"role": "user", "content": "long"}]
            with pytest.raises(openai.BadRequestError) as caught:
                client.chat.completions.create(model="org/model", messages=asked["messages"])
            assert caught.value.code == "context_length_exceeded"
        backend.close()
