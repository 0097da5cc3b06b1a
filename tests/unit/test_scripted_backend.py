"""The backend protocol, by way of its scripted double and of small backends made here."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

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
    scripted_response,
)
from asymspec_agents.errors import BackendError
from asymspec_agents.messages import FunctionCall, ToolCall, parse_messages
from asymspec_agents.protocol import AsymSpecReport, AsymSpecRequest

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


# ScriptedBackend


def test_replies_come_in_order_and_requests_are_kept() -> None:
    backend = ScriptedBackend(["one", scripted_response("two", tool_calls=[CALL])], model="m")
    first, second = backend.generate(request("a")), backend.generate(request("b"))
    assert (first.content, first.finish_reason, first.tool_calls) == ("one", "stop", ())
    assert (second.content, second.finish_reason, second.tool_calls) == ("two", "tool_calls", (CALL,))
    assert [kept.messages[0].content for kept in backend.requests] == ["a", "b"]
    assert backend.capabilities == Capabilities("m", "m", ("asymspec",))
    assert backend.requests[0].request_id != backend.requests[1].request_id
    backend.close()


def test_an_exhausted_script_is_a_backend_error() -> None:
    backend = ScriptedBackend(["one"])
    backend.generate(request())
    with pytest.raises(BackendError, match="request 2"):
        backend.generate(request())


def test_a_scripted_exception_is_raised_and_the_script_goes_on() -> None:
    backend = ScriptedBackend([KeyError("lost"), "after"])
    with pytest.raises(KeyError, match="lost"):
        backend.generate(request())
    assert backend.generate(request()).content == "after"


def test_a_handler_answers_each_request_and_may_ask_the_backend_itself() -> None:
    def handler(asked: ChatRequest) -> str:
        text = asked.messages[0].texts()[0]
        return backend.generate(request(text[1:])).content + text[0] if text else ""

    backend = ScriptedBackend(handler)
    assert backend.generate(request("abc")).content == "cba"
    assert len(backend.requests) == 4


@pytest.mark.parametrize(
    "content", ["", "one", "two\nlines\r\n", "\n\n", "odd\x0bbreaks\u2028here", "\ud83d"]
)
def test_deltas_add_up_to_the_answer_with_usage_and_report_once_at_the_end(content: str) -> None:
    report = AsymSpecReport(blocks=3)
    backend = ScriptedBackend([scripted_response(content, report=report)] * 2)
    deltas = list(backend.stream(request()))
    assert "".join(delta.content for delta in deltas) == content
    assert [delta.usage for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert [delta.report for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    assert [delta.finish_reason for delta in deltas[:-1]] == [None] * (len(deltas) - 1)
    whole = backend.generate(request())
    assert whole == collect(iter(deltas))
    assert (whole.content, whole.report, whole.raw_text) == (content, report, content)
    assert whole.usage == Usage(0, len(content.split()))


def test_an_asymspec_request_is_answered_with_a_report_and_a_plain_one_without() -> None:
    backend = ScriptedBackend(["x", "x", "x"])
    asked = AsymSpecRequest(edits=(), mode="strict")
    report = backend.generate(request(asymspec=asked)).report
    assert report == AsymSpecReport(mode="strict")
    pair = AsymSpecRequest(edits=(), gate="cda", delta="none")
    assert backend.generate(request(asymspec=pair)).report == AsymSpecReport(mode="cda+none")
    assert backend.generate(request()).report is None


def test_a_script_may_be_read_by_many_threads() -> None:
    backend = ScriptedBackend([str(index) for index in range(40)])
    answers: list[str] = []

    def ask() -> None:
        answers.extend(backend.generate(request()).content for _ in range(10))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answers, key=int) == [str(index) for index in range(40)]


# Backend


def test_a_stream_without_an_end_is_an_error() -> None:
    for deltas in ([], [ChatDelta("x")], [ChatDelta("x", finish_reason="stop")]):
        with pytest.raises(RuntimeError, match="without finish_reason and usage"):
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
        return await asyncio.gather(backend.agenerate(request("a")), backend.agenerate(request("b")))

    assert [response.content for response in asyncio.run(both())] == ["a", "b"]
