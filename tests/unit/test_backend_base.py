"""What every backend inherits: whole and async forms of a stream, errors that travel, and aborts."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from asymspec_agents.backends import (
    Backend,
    Capabilities,
    ChatDelta,
    ChatRequest,
    ChatResponse,
    ScriptedBackend,
    Segment,
    Usage,
    collect,
)
from asymspec_agents.errors import BackendError, ConfigurationError
from asymspec_agents.messages import FunctionCall, ToolCall, parse_messages
from asymspec_agents.protocol import AsymSpecRequest

CALL = ToolCall(id="1", type="function", function=FunctionCall(name="f", arguments="{}"))


def request(text: str = "hi", asymspec: AsymSpecRequest | None = None) -> ChatRequest:
    return ChatRequest(messages=parse_messages([{"role": "user", "content": text}]), asymspec=asymspec)


class Endless(Backend):
    """Streams until it is closed."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.closed = threading.Event()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities("endless", None)

    def stream(self, request: ChatRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        try:
            while True:
                self.started.set()
                yield ChatDelta("x")
                self.closed.wait(0.001)  # a model takes its time
        finally:
            self.closed.set()


class Words(Endless):
    """Streams a list's iterator, which has no `close`."""

    def stream(self, request: ChatRequest, *, abort: threading.Event | None = None) -> Iterator[ChatDelta]:
        return iter([ChatDelta("a"), ChatDelta("b", finish_reason="stop", usage=Usage(1, 2))])


def test_a_stream_without_an_end_is_an_error() -> None:
    for deltas in ([], [ChatDelta("x")], [ChatDelta("x", finish_reason="stop")]):
        with pytest.raises(BackendError, match="without finish_reason and usage"):
            collect(iter(deltas))


def test_collect_gathers_calls_and_segments_in_order() -> None:
    parts = [Segment("<", "accepted"), Segment(">", "fused")]
    response = collect(
        iter(
            [
                ChatDelta(segments=(parts[0],)),
                ChatDelta("y", tool_calls=(CALL,), segments=(parts[1],)),
                ChatDelta(finish_reason="tool_calls", usage=Usage(1, 2, 1)),
            ]
        )
    )
    assert response == ChatResponse("y", (CALL,), "tool_calls", Usage(1, 2, 1), None, tuple(parts))
    assert response.raw_text == "<>"


def test_a_backend_needs_capabilities_and_stream() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Backend()  # type: ignore[abstract]


@pytest.mark.parametrize("backend", [ScriptedBackend(["ab"] * 4), Words()])
def test_the_async_forms_give_what_the_others_give(backend: Backend) -> None:
    async def both() -> tuple[ChatResponse, list[ChatDelta]]:
        return await backend.agenerate(request()), [delta async for delta in backend.astream(request())]

    response, deltas = asyncio.run(both())
    assert response.content == "ab"
    assert deltas == list(backend.stream(request()))
    assert response == backend.generate(request())


def test_an_error_travels_to_whoever_awaits() -> None:
    error = BackendError("down")

    class Broken(Endless):
        def stream(
            self, request: ChatRequest, *, abort: threading.Event | None = None
        ) -> Iterator[ChatDelta]:
            yield ChatDelta("x")
            raise error

    async def read() -> tuple[list[str], BaseException | None]:
        seen: list[str] = []
        try:
            async for delta in Broken().astream(request()):
                seen.append(delta.content)
        except BackendError as caught:
            return seen, caught
        return seen, None

    seen, caught = asyncio.run(read())
    assert seen == ["x"]
    assert caught is error
    with pytest.raises(BackendError, match="down"):
        asyncio.run(Broken().agenerate(request()))


def test_an_error_before_the_first_step_travels_too() -> None:
    class Refusing(Endless):
        def stream(
            self, request: ChatRequest, *, abort: threading.Event | None = None
        ) -> Iterator[ChatDelta]:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        asyncio.run(Refusing().agenerate(request()))


def test_cancelling_a_task_closes_the_stream() -> None:
    backend = Endless()

    async def cancel() -> None:
        task = asyncio.create_task(backend.agenerate(request()))
        await asyncio.to_thread(backend.started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert backend.closed.wait(10)


def test_cancelling_a_task_aborts_a_stream_that_is_still_computing_its_first_step() -> None:
    class Prefilling(Endless):
        aborted = False

        def stream(
            self, request: ChatRequest, *, abort: threading.Event | None = None
        ) -> Iterator[ChatDelta]:
            assert abort is not None
            self.started.set()
            self.aborted = abort.wait(10)
            self.closed.set()
            yield ChatDelta("too late")

    backend = Prefilling()

    async def cancel() -> None:
        task = asyncio.create_task(backend.agenerate(request()))
        await asyncio.to_thread(backend.started.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert backend.closed.wait(10)
    assert backend.aborted


def test_leaving_an_async_stream_early_closes_it() -> None:
    backend = Endless()

    async def leave() -> None:
        stream = backend.astream(request())
        async for _ in stream:
            break
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(leave())
    assert backend.closed.wait(10)


def test_a_closed_loop_ends_the_stream() -> None:
    """A caller that drops its loop without any clean-up must not leave the backend working for ever."""
    backend = Endless()
    loop = asyncio.new_event_loop()
    stream = backend.astream(request())
    loop.run_until_complete(anext(stream))
    loop.close()
    assert backend.closed.wait(10)
    del stream


def test_closing_a_stream_early_closes_it() -> None:
    backend = Endless()
    stream = backend.stream(request())
    next(stream)
    stream.close()  # type: ignore[attr-defined]
    assert backend.closed.is_set()


def test_two_async_requests_run_at_once() -> None:
    meeting = threading.Barrier(2, timeout=10)

    def handler(asked: ChatRequest) -> str:
        meeting.wait()
        return asked.messages[0].texts()[0]

    backend = ScriptedBackend(handler)

    async def both() -> list[ChatResponse]:
        return list(await asyncio.gather(backend.agenerate(request("a")), backend.agenerate(request("b"))))

    assert [response.content for response in asyncio.run(both())] == ["a", "b"]


def test_a_request_takes_wire_dicts() -> None:
    asked = ChatRequest(
        messages=[{"role": "user", "content": "x"}],  # type: ignore[arg-type]
        tools=[{"type": "function", "function": {"name": "f"}}],  # type: ignore[arg-type]
        stop=["a", "b"],  # type: ignore[arg-type]
    )
    assert asked.messages == parse_messages([{"role": "user", "content": "x"}])
    assert asked.tools[0].wire() == {"type": "function", "function": {"name": "f"}}
    assert asked.stop == ("a", "b")


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("stop", ["end", ("",), (1,)]),
        ("max_tokens", [0, -1, 1.5, True, "3"]),
        ("temperature", [-0.1, float("nan"), float("inf"), True, "0"]),
    ],
)
def test_a_malformed_request_is_an_error_that_names_field_and_value(field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(ConfigurationError) as caught:
            ChatRequest(messages=(), **{field: value})
        assert str(caught.value).startswith(f"{field}={value!r}")
    accepted: dict[str, Any] = {"max_tokens": 1, "temperature": 0}
    assert ChatRequest(messages=(), **accepted).max_tokens == 1
