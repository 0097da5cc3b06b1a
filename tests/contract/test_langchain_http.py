"""ChatAsymSpec against a server on a real socket: loops, streams that are left, refusals, callbacks."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("langchain_core")

from langchain_core import exceptions as langchains
from langchain_core.callbacks import AsyncCallbackHandler, BaseCallbackHandler
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.rate_limiters import InMemoryRateLimiter
from langchain_core.tools import tool

from asymspec_agents import ContextRouter, HTTPBackend, RoutedContext, ScriptedBackend, errors
from asymspec_agents.backends import Backend
from langchain_asymspec import ChatAsymSpec
from tests.contract.langchain_answers import obedient_backend
from tests.contract.servers import served, served_app
from tests.server.serving import HeldBackend, eventually, serving

TALK = "Hello there.\nHow may I help?\nAsk me anything.\n"


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: sunny"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(obedient_backend(), api_keys=("k",)) as url:
        yield url


def chat(url: str, **fields: Any) -> ChatAsymSpec:
    return ChatAsymSpec(base_url=url, api_key="k", **fields)


def test_one_model_serves_any_number_of_event_loops_and_threads(url: str) -> None:
    """langchain-openai keeps one asynchronous client for all loops: the second asyncio.run fails with
    "Event loop is closed" where the server keeps connections open.
    """
    model = chat(url)

    async def ask() -> str:
        streamed = [chunk.text async for chunk in model.astream("Hello")]
        answer = await model.ainvoke("Hello")
        assert answer.text == "".join(streamed)
        return "".join(streamed)

    assert [asyncio.run(ask()) for _ in range(3)] == [TALK] * 3
    assert model.invoke("Hello").text == TALK
    answers: list[str] = []
    threads = [threading.Thread(target=lambda: answers.append(asyncio.run(ask()))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [TALK] * 4


def test_batches_keep_their_order(url: str) -> None:
    model = chat(url).bind_tools([weather])
    cities = [f"City{number}" for number in range(8)]
    answers = model.batch([f"Weather in '{city}'?" for city in cities])
    assert [answer.tool_calls[0]["args"]["city"] for answer in answers] == cities


def test_a_bodys_views_are_the_protocols() -> None:
    """langchain-ai/langchain #38352, #34282 and #33245, openai/openai-agents-python #2317: shortened
    histories held results without their calls. headroomlabs-ai/headroom #2438: a call's arguments were lost.
    """
    arguments = '{"day":  "Monday", "näme": "x"}'
    raw = {"id": "c1", "type": "function", "function": {"name": "read_log", "arguments": arguments}}
    log = "\n".join(f"12:{n // 60 % 60:02}:{n % 60:02} request {n} served" for n in range(1_500))
    history = [
        HumanMessage("When was request 700 served?"),
        AIMessage(
            "",
            tool_calls=[{"name": "read_log", "args": {"day": "Monday", "näme": "x"}, "id": "c1"}],
            additional_kwargs={"tool_calls": [raw]},
        ),
        ToolMessage(log, tool_call_id="c1"),
    ]
    with served(obedient_backend()) as server:
        ChatAsymSpec(base_url=server.url).bind_tools([weather], tool_choice="none").invoke(history)
        (body,) = [sent for sent in server.bodies if sent["path"] == "/v1/chat/completions"]
    assert body["messages"][1]["tool_calls"] == [raw]
    assert body["messages"][1]["content"] is None
    assert body["messages"][2] == {"role": "tool", "tool_call_id": "c1", "content": log}
    assert body["tool_choice"] == "none"
    assert body["temperature"] == 0
    (edit,) = body["asymspec"]["edits"]
    assert edit["message"] == 2
    assert "request 700 served" in edit["text"]
    assert len(edit["text"]) < len(log) / 2


def test_leaving_a_stream_stops_the_server() -> None:
    backend = HeldBackend()
    with serving(backend) as url:
        model = ChatAsymSpec(base_url=url)
        stream = model.stream("Hello")
        backend.let_go()
        assert next(stream).text == "one "
        stream.close()  # type: ignore[attr-defined]
        eventually(lambda: len(backend.ends) == 1)

        async def leave() -> None:
            astream = model.astream("Hello")
            backend.let_go()
            assert (await anext(astream)).text == "one "
            await astream.aclose()  # type: ignore[attr-defined]

        asyncio.run(leave())
        eventually(lambda: len(backend.ends) == 2)
    assert "whole" not in backend.ends


@pytest.mark.parametrize("is_stream", [False, True])
def test_cancelling_a_task_stops_the_server(is_stream: bool) -> None:
    backend = HeldBackend()
    with serving(backend) as url:
        model = ChatAsymSpec(base_url=url)

        async def ask() -> None:
            if is_stream:
                async for _ in model.astream("Hello"):
                    pass
            else:
                await model.ainvoke("Hello")

        async def cancel() -> None:
            task = asyncio.create_task(ask())
            while not backend.requests:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(cancel())
        eventually(lambda: len(backend.ends) == 1)
    assert backend.ends != ["whole"]


class _Slow(ContextRouter):
    def route(self, *args: Any, **kwargs: Any) -> RoutedContext:
        time.sleep(0.3)
        return super().route(*args, **kwargs)


@pytest.mark.parametrize("build", [lambda url: HTTPBackend(url, api_key="k"), lambda url: obedient_backend()])
def test_routing_never_holds_up_the_event_loop(url: str, build: Callable[[str], Backend]) -> None:
    """headroomlabs-ai/headroom #1025: seconds of compression in the event loop held up everything else."""
    model = ChatAsymSpec(backend=build(url), router=_Slow())
    waits: list[float] = []

    async def beat() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.01)
            waits.append(time.perf_counter() - before)

    async def ask() -> None:
        beating = asyncio.create_task(beat())
        await model.ainvoke("Hello")
        beating.cancel()

    asyncio.run(ask())
    assert len(waits) >= 5, "the loop went on while the router worked"


@pytest.mark.parametrize(
    ("raised", "theirs"),
    [
        (errors.ContextOverflowError("full", 9, 5), langchains.ContextOverflowError),
        (errors.MessageError("bad"), langchains.ModelInvalidRequestError),
        (errors.UnsupportedRequestError("no"), langchains.ModelInvalidRequestError),
        (errors.ConfigurationError("no"), langchains.ModelInvalidRequestError),
        (errors.BackendError("out of memory"), langchains.ModelAPIError),
    ],
)
def test_refusals_are_this_packages_and_langchains_errors(
    raised: Exception, theirs: type[langchains.ModelError]
) -> None:
    ours = errors.ServerError if type(raised) is errors.BackendError else type(raised)
    with serving(ScriptedBackend(lambda request: raised)) as url:
        model = ChatAsymSpec(base_url=url, max_retries=0)
        for ask in (
            lambda: model.invoke("Hello"),
            lambda: list(model.stream("Hello")),
            lambda: asyncio.run(model.ainvoke("Hello")),
        ):
            with pytest.raises(ours) as caught:
                ask()
            assert isinstance(caught.value, theirs)
            assert caught.value.is_retryable is theirs.is_retryable


def _refusing(status: int, message: str = "no") -> Any:
    content = json.dumps({"error": {"message": message}}).encode()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for kind in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{kind}.complete"})
            return
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": content})

    return app


@pytest.mark.parametrize(
    ("status", "theirs"),
    [
        (400, langchains.ModelInvalidRequestError),
        (401, langchains.ModelAuthenticationError),
        (403, langchains.ModelPermissionDeniedError),
        (422, langchains.ModelInvalidRequestError),
        (429, langchains.ModelRateLimitError),
        (500, langchains.ModelAPIError),
        (503, langchains.ModelAPIError),
    ],
)
def test_a_status_is_the_error_langchain_has_for_it(status: int, theirs: type[Exception]) -> None:
    with served_app(_refusing(status)) as server:
        with pytest.raises(errors.ServerError) as caught:
            ChatAsymSpec(base_url=server.url, max_retries=0).invoke("Hello")
        assert caught.value.status == status
        assert isinstance(caught.value, theirs)


def test_a_server_that_cannot_say_which_view_is_too_long_is_understood() -> None:
    said = "This model's maximum context length is 8 tokens. However, you requested 9 tokens."
    with served_app(_refusing(400, said)) as server, pytest.raises(langchains.ContextOverflowError):
        ChatAsymSpec(base_url=server.url, max_retries=0).invoke("Hello")


def test_what_is_no_answer_is_an_error_too(url: str) -> None:
    with pytest.raises(langchains.ModelConnectionError):
        ChatAsymSpec(base_url="http://127.0.0.1:9", max_retries=0).invoke("Hello")
    with served_app(_refusing(404)) as server, pytest.raises(errors.NotAsymSpecError) as caught:
        ChatAsymSpec(base_url=server.url, max_retries=0).invoke("Hello")
    assert isinstance(caught.value, langchains.ModelError)
    with pytest.raises(langchains.ModelAuthenticationError):
        ChatAsymSpec(base_url=url, api_key="wrong", max_retries=0).invoke("Hello")
    with serving(HeldBackend()) as held, pytest.raises(langchains.ModelTimeoutError):
        ChatAsymSpec(base_url=held, timeout=0.5, max_retries=0).invoke("Hello")


def test_middleware_for_errors_sees_langchains_own(url: str) -> None:
    wrong = ChatAsymSpec(base_url=url, api_key="wrong", max_retries=0)
    right = wrong.with_fallbacks([chat(url)], exceptions_to_handle=(langchains.ModelAuthenticationError,))
    assert right.invoke("Hello").text == TALK


class _Heard(BaseCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.ends: list[Any] = []
        self.errors: list[BaseException] = []

    def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        self.tokens.append(token)

    def on_llm_end(self, response: Any, **kwargs: Any) -> None:
        self.ends.append(response)

    def on_llm_error(self, error: BaseException, **kwargs: Any) -> None:
        self.errors.append(error)


class _AsyncHeard(AsyncCallbackHandler):
    def __init__(self) -> None:
        self.tokens: list[str] = []

    async def on_llm_new_token(self, token: Any, **kwargs: Any) -> None:
        self.tokens.append(token)


def test_callbacks_hear_each_piece_once(url: str) -> None:
    pieces = [*TALK.splitlines(keepends=True), ""]
    for ask in (
        lambda handler: list(chat(url).stream("Hello", {"callbacks": [handler]})),
        lambda handler: chat(url, streaming=True).invoke("Hello", {"callbacks": [handler]}),
        lambda handler: list(chat(url, callbacks=[handler]).stream("Hello")),
    ):
        heard = _Heard()
        ask(heard)
        assert heard.tokens == pieces
        assert len(heard.ends) == 1
        assert heard.ends[0].generations[0][0].message.usage_metadata["output_tokens"] == 7
        assert not heard.errors

    async def ask_async(handler: _AsyncHeard) -> None:
        async for _ in chat(url).astream("Hello", {"callbacks": [handler]}):
            pass
        await chat(url, streaming=True).ainvoke("Hello", {"callbacks": [handler]})

    heard_async = _AsyncHeard()
    asyncio.run(ask_async(heard_async))
    assert heard_async.tokens == pieces * 2


def test_callbacks_hear_of_errors(url: str) -> None:
    heard = _Heard()
    with pytest.raises(errors.ConfigurationError):
        chat(url).invoke("Hello", {"callbacks": [heard]}, max_tokens=0)
    assert len(heard.errors) == 1


def test_a_rate_limiter_is_asked_once_a_call(url: str) -> None:
    asked: list[bool] = []

    class Counting(InMemoryRateLimiter):
        def acquire(self, *, blocking: bool = True) -> bool:
            asked.append(blocking)
            return True

    model = chat(url, rate_limiter=Counting())
    model.invoke("Hello")
    list(model.stream("Hello"))
    chat(url, rate_limiter=Counting(), streaming=True).invoke("Hello")
    assert asked == [True] * 3
