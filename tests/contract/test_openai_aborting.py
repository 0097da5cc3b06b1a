"""The official `openai` client gives up, is cancelled or comes too often: the server stops and goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

openai = pytest.importorskip("openai")

from tests.server.serving import HeldBackend, eventually, serving  # noqa: E402

USER = {"role": "user", "content": "Weather in Paris?"}


def run_async(url: str, use: Any) -> Any:
    """The result of `use(client)` with an asynchronous client."""

    async def run() -> Any:
        async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
            return await use(client)

    return asyncio.run(run())


def test_a_full_queue_is_a_rate_limit_that_the_client_waits_out() -> None:
    backend = HeldBackend()
    asked: dict[str, Any] = {"model": "held", "messages": [USER]}
    with serving(backend, max_waiting=0) as url, openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
        with client.chat.completions.create(**asked, stream=True):
            eventually(lambda: len(backend.requests) == 1)
            with pytest.raises(openai.RateLimitError) as caught:
                client.with_options(max_retries=0).chat.completions.create(**asked)
            assert caught.value.response.headers["retry-after"].isdigit()
        eventually(lambda: backend.ends == ["aborted"])
        backend.let_go(3)
        assert client.chat.completions.create(**asked).choices[0].message.content == "one two three "


@pytest.fixture
def held() -> Iterator[tuple[HeldBackend, str]]:
    backend = HeldBackend()
    with serving(backend) as url:
        yield backend, url
        # Whatever was cancelled, the next request is answered.
        eventually(lambda: len(backend.ends) == len(backend.requests))
        backend.let_go(3)
        with openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
            answer = client.chat.completions.create(model="held", messages=[USER])
        assert answer.choices[0].message.content == "one two three "


def test_closing_a_stream_aborts_the_decoding(held: tuple[HeldBackend, str]) -> None:
    backend, url = held
    with openai.OpenAI(base_url=f"{url}/v1", api_key="x") as client:
        stream = client.chat.completions.create(model="held", messages=[USER], stream=True)
        backend.let_go()
        texts = (chunk.choices[0].delta.content for chunk in stream)
        assert next(text for text in texts if text) == "one "
        stream.close()
        eventually(lambda: backend.ends == ["aborted"])


@pytest.mark.parametrize("is_stream", [False, True])
def test_cancelling_a_task_aborts_the_decoding(held: tuple[HeldBackend, str], is_stream: bool) -> None:
    backend, url = held

    async def cancel(client: Any) -> None:
        async def ask() -> None:
            answer = await client.chat.completions.create(model="held", messages=[USER], stream=is_stream)
            if is_stream:
                async for _ in answer:
                    pass

        task = asyncio.create_task(ask())
        while not backend.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run_async(url, cancel)
    eventually(lambda: backend.ends == ["aborted"])


def test_a_client_that_times_out_aborts_the_decoding(held: tuple[HeldBackend, str]) -> None:
    backend, url = held
    with (
        openai.OpenAI(base_url=f"{url}/v1", api_key="x", timeout=0.2, max_retries=0) as client,
        pytest.raises(openai.APITimeoutError),
    ):
        client.chat.completions.create(model="held", messages=[USER])
    eventually(lambda: backend.ends == ["aborted"])
