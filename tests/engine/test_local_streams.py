"""LocalBackend's streams: where answers end, who may decode, and what an early end leaves behind."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from asymspec_agents.backends import ChatDelta, ChatResponse, collect
from asymspec_agents.backends.local import LocalBackend
from asymspec_agents.engine import view
from asymspec_agents.engine.model import CausalModel
from asymspec_agents.errors import ConfigurationError, RequestAbortedError
from asymspec_agents.trace import MemoryRecorder, measure
from asymspec_agents.trace.events import ErrorEvent

from .tiny_folder import WEATHER, ask, writing_backend

LETTERS = list("abcdefghijklmnop")
EMOJI = [bytes([byte]) for byte in "😀".encode()]
CALL = ["<tool", "_call>", '{"name": "weather", ', '"arguments": {"city": ', '"Oslo"}}', "</tool_call>"]
WAIT_S = 20


@pytest.fixture
def recorder() -> MemoryRecorder:
    return MemoryRecorder()


@pytest.fixture
def backend(recorder: MemoryRecorder) -> LocalBackend:
    """A writer of letters, one or more a block."""
    return writing_backend(LETTERS, drafter_pieces=list("abcXefghYjklmnop"), recorder=recorder)


def deltas_of(response_of: LocalBackend, **fields: Any) -> tuple[list[ChatDelta], ChatResponse]:
    """A stream's deltas, checked against the whole answer to the same request."""
    request = ask(**fields)
    response_of.engine.prefixes.clear()
    deltas = list(response_of.stream(request))
    response_of.engine.prefixes.clear()
    response = response_of.generate(request)
    assert collect(iter(deltas)) == response
    return deltas, response


@pytest.mark.parametrize("num_draft_tokens", [1, 2, 3, 8])
@pytest.mark.parametrize(
    ("pieces", "stop", "answer"),
    [
        (["ab", "cS", "TO", "Pde"], ("STOP",), "abc"),
        (["ab", "cSTOPd", "STOP"], ("STOP",), "abc"),
        (["STOP", "ab"], ("STOP",), ""),
        (["a", "ST", "b", "STO", "c"], ("STOP",), "aSTbSTOc"),
        (["a", "ST"], ("STOP",), "aST"),
        (["ab", "c", "d", "ef"], ("cde", "bc"), "a"),
        (["a", " \n", "Obs", "ervation:", " x"], ("\nObservation:",), "a "),
        (["x", *EMOJI, "y"], ("😀",), "x"),
        (["x", *EMOJI[:2], "y"], ("y",), "x\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_stop_strings_end_the_answer(
    pieces: list[str | bytes], stop: tuple[str, ...], answer: str, num_draft_tokens: int
) -> None:
    backend = writing_backend(pieces)
    deltas, response = deltas_of(backend, stop=stop, options={"num_draft_tokens": num_draft_tokens})
    assert response.content == response.raw_text == answer
    assert response.finish_reason == "stop"
    sent = itertools.accumulate(delta.content for delta in deltas)
    assert all(answer.startswith(text) for text in sent)


def test_eos_ends_the_answer_and_counts() -> None:
    for options in ({}, {"num_draft_tokens": 8}):
        _, response = deltas_of(writing_backend(LETTERS[:4]), max_tokens=None, options=options)
        assert (response.content, response.finish_reason) == ("abcd", "stop")
        assert response.usage.completion_tokens == 5
    _, response = deltas_of(writing_backend([]))
    assert (response.content, response.usage.completion_tokens) == ("", 1)


@pytest.mark.parametrize("max_tokens", [1, 2, 3, 4, 5])
def test_max_tokens_may_fall_in_mid_block(backend: LocalBackend, max_tokens: int) -> None:
    _, response = deltas_of(backend, max_tokens=max_tokens)
    assert (response.content, response.finish_reason) == ("abcde"[:max_tokens], "length")
    assert response.usage.completion_tokens == max_tokens


@pytest.mark.parametrize("edits", [None, (), [{"message": 1, "text": "x"}]])
def test_only_the_last_delta_has_the_ending(backend: LocalBackend, edits: Any) -> None:
    deltas, response = deltas_of(backend, edits=edits)
    *steps, last = deltas
    assert len(steps) > 3
    assert all(d.usage is None and d.report is None and d.finish_reason is None for d in steps)
    assert (last.usage, last.report, last.finish_reason) == (response.usage, response.report, "length")
    assert (last.report is None) == (edits is None)


@pytest.mark.parametrize("pieces", [["Look: ", *CALL, " done"], CALL, ["x <", *CALL], ["{x} ", *CALL]])
def test_no_part_of_a_call_is_streamed_as_content(pieces: list[str]) -> None:
    deltas, response = deltas_of(writing_backend(pieces), tools=(WEATHER,), options={"num_draft_tokens": 1})
    assert [call.function.arguments for call in response.tool_calls if call.function] == ['{"city": "Oslo"}']
    assert response.raw_text == "".join(pieces)
    assert response.content == "".join(p for p in pieces if p not in CALL).rstrip()
    assert "".join(delta.content for delta in deltas) == response.content
    assert all(not delta.tool_calls for delta in deltas[:-1])


def test_closing_a_stream_frees_the_engine(backend: LocalBackend, recorder: MemoryRecorder) -> None:
    whole = backend.generate(ask())
    for leave in (lambda stream: stream.close(), lambda stream: None):
        recorder.clear()
        stream = backend.stream(ask(request_id="left"))
        next(stream)
        leave(stream)
        del stream
        assert backend.generate(ask()).content == whole.content
        (error,) = [event for event in recorder.events if isinstance(event, ErrorEvent)]
        assert (error.request_id, error.error_type) == ("left", "RequestAbortedError")
    unstarted = backend.stream(ask())
    unstarted.close()  # type: ignore[attr-defined]


def test_an_aborted_request_ends_at_the_next_block(backend: LocalBackend, recorder: MemoryRecorder) -> None:
    abort = threading.Event()
    stream = backend.stream(ask(request_id="r"), abort=abort)
    first = next(stream)
    abort.set()
    with pytest.raises(RequestAbortedError, match="request r was aborted"):
        next(stream)
    kinds = [event.event for event in recorder.events]
    assert kinds == ["request", "block", "error"]
    error = recorder.events[-1]
    assert isinstance(error, ErrorEvent)
    assert (error.request_id, error.error_type) == ("r", "RequestAbortedError")
    request = ask()
    prompt = backend.count_prompt(request.messages)
    assert error.forwarded_tokens.drafter >= prompt  # the prompt and the block's drafts
    assert 0 < error.forwarded_tokens.verifier < error.forwarded_tokens.drafter
    metrics = measure(recorder.events)
    assert (metrics.num_errors, metrics.num_responses) == (1, 0)
    assert metrics.forwarded_tokens == error.forwarded_tokens
    # what was read until then is right, and reused
    again = backend.generate(request)
    assert again.content.startswith(first.content)
    assert again.report is not None
    assert again.report.cached_tokens.drafter == prompt - 1


def test_a_request_aborted_before_it_began_leaves_no_trace(
    backend: LocalBackend, recorder: MemoryRecorder
) -> None:
    abort = threading.Event()
    abort.set()
    with pytest.raises(RequestAbortedError):
        next(backend.stream(ask(), abort=abort))
    assert measure(recorder.events).num_responses == 0
    assert backend.generate(ask()).content


def test_a_failing_model_is_recorded_and_the_engine_stays_usable(
    backend: LocalBackend, recorder: MemoryRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = backend.engine.models["verifier"]
    with monkeypatch.context() as patch:
        failures = iter([None, None, RuntimeError("out of memory")])
        forward = verifier.forward

        def failing(*args: Any) -> Any:
            error = next(failures)
            if error is not None:
                raise error
            return forward(*args)

        patch.setattr(verifier, "forward", failing)
        with pytest.raises(RuntimeError, match="out of memory"):
            backend.generate(ask())
    error = recorder.events[-1]
    assert isinstance(error, ErrorEvent)
    assert (error.error_type, error.message) == ("RuntimeError", "out of memory")
    assert backend.generate(ask()).content == "".join(LETTERS[:12])


def test_a_second_stream_in_one_thread_is_an_error_not_a_deadlock(backend: LocalBackend) -> None:
    first = backend.stream(ask())
    begun = next(first)
    with pytest.raises(ConfigurationError, match="unfinished stream; exhaust or close it"):
        backend.generate(ask())
    rest = "".join(delta.content for delta in first)
    assert begun.content + rest == "".join(LETTERS[:12])
    assert backend.generate(ask()).content


def test_threads_take_turns(backend: LocalBackend) -> None:
    first = backend.stream(ask())
    begun = next(first)
    answers: list[str] = []
    threads = [
        threading.Thread(target=lambda: answers.append(backend.generate(ask()).content)) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    threads[0].join(0.2)
    assert answers == []
    assert all(thread.is_alive() for thread in threads)
    whole = begun.content + "".join(delta.content for delta in first)
    for thread in threads:
        thread.join(WAIT_S)
    assert answers == [whole, whole]


def test_a_waiting_request_can_be_aborted(backend: LocalBackend) -> None:
    first = backend.stream(ask())
    next(first)
    caught: list[BaseException] = []
    abort = threading.Event()

    def wait() -> None:
        try:
            list(backend.stream(ask(), abort=abort))
        except RequestAbortedError as error:
            caught.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    abort.set()
    thread.join(WAIT_S)
    assert len(caught) == 1
    first.close()  # type: ignore[attr-defined]


def _gated(monkeypatch: pytest.MonkeyPatch, model: CausalModel) -> tuple[threading.Event, Callable[[], int]]:
    """Lets each forward of the model wait for a gate; an event for the first one, and how many began."""
    begun, gate, num_begun = threading.Event(), threading.Event(), itertools.count()
    forward = model.forward
    seen: list[int] = []

    def slow(*args: Any) -> Any:
        seen.append(next(num_begun))
        begun.set()
        gate.wait(0.2)
        return forward(*args)

    monkeypatch.setattr(model, "forward", slow)
    return begun, lambda: len(seen)


def test_cancelling_a_task_aborts_a_long_prefill(
    backend: LocalBackend, recorder: MemoryRecorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(view, "PREFILL_CHUNK", 4)
    begun, num_forwards = _gated(monkeypatch, backend.engine.models["drafter"])

    async def cancel() -> int:
        task = asyncio.create_task(backend.agenerate(ask()))
        await asyncio.to_thread(begun.wait, WAIT_S)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return num_forwards()

    before = asyncio.run(cancel())
    with backend.engine._lock:  # the request has ended
        assert num_forwards() <= before + 1  # of the forty chunks, the one under way and no other
    error = recorder.events[-1]
    assert isinstance(error, ErrorEvent)
    assert error.forwarded_tokens.drafter <= 4 * (before + 1)


def test_async_requests_take_turns(backend: LocalBackend) -> None:
    async def both() -> list[ChatResponse]:
        return await asyncio.gather(backend.agenerate(ask()), backend.agenerate(ask(edits=None)))

    first, second = asyncio.run(both())
    assert first.content == second.content == "".join(LETTERS[:12])
