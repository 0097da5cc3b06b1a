"""The client of a server: cancelling, aborting, closing, threads, loops one after another, forks."""

from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from asymspec_agents.backends import HTTPBackend, collect
from asymspec_agents.errors import (
    ConnectionFailedError,
    RequestAbortedError,
)
from tests.http_forms import FORMS, Form, answer, ask, astream, every_form, http_threads
from tests.odd_server import Call, OddServer, chunk, odd_server, sse


def hang(server_of: list[OddServer]) -> Callable[[Call], None]:
    """Sends one word of a stream, or nothing, and waits until the client leaves."""

    def handler(call: Call) -> None:
        if call.body.get("stream"):
            call.begin()
            call.send(sse(chunk({"content": "one "})))
        if call.wait_until_left():
            server_of[0].left.set()

    return handler


def test_closing_a_stream_closes_the_connection() -> None:
    servers: list[OddServer] = []
    with odd_server(hang(servers)) as server:
        servers.append(server)
        backend = HTTPBackend(server.url)
        stream = backend.stream(ask())
        assert next(stream).content == "one "
        stream.close()
        assert server.left.wait(10)
        backend.close()


def test_breaking_out_of_an_async_stream_closes_the_connection() -> None:
    servers: list[OddServer] = []

    async def first_word(backend: HTTPBackend) -> str:
        stream = backend.astream(ask())
        async for delta in stream:
            await stream.aclose()
            return delta.content
        return ""

    with odd_server(hang(servers)) as server:
        servers.append(server)
        backend = HTTPBackend(server.url)
        assert asyncio.run(first_word(backend)) == "one "
        assert server.left.wait(10)
        backend.close()


@pytest.mark.parametrize("form", ["agenerate", "astream"])
def test_cancelling_a_task_closes_the_connection(form: str) -> None:
    servers: list[OddServer] = []

    async def cancel(backend: HTTPBackend, server: OddServer) -> None:
        coroutine = backend.agenerate(ask()) if form == "agenerate" else astream(backend, ask())
        task = asyncio.create_task(coroutine)
        while not server.posts:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with odd_server(hang(servers)) as server:
        servers.append(server)
        backend = HTTPBackend(server.url)
        asyncio.run(cancel(backend, server))
        assert server.left.wait(10)
        backend.close()


def test_setting_abort_ends_a_stream_that_waits_or_runs() -> None:
    servers: list[OddServer] = []
    with odd_server(hang(servers)) as server:
        servers.append(server)
        backend = HTTPBackend(server.url)
        abort = threading.Event()
        stream = backend.stream(ask(), abort=abort)
        assert next(stream).content == "one "
        threading.Timer(0.1, abort.set).start()
        with pytest.raises(RequestAbortedError):
            next(stream)
        assert server.left.wait(10)
        num_posts = len(server.posts)
        with pytest.raises(RequestAbortedError):
            next(backend.stream(ask(), abort=abort))
        assert len(server.posts) == num_posts  # set before the start: nothing is sent
        backend.close()

    def endless(call: Call) -> None:
        call.begin()
        while True:
            call.send(sse(chunk({"content": "more"})))

    with odd_server(endless) as server:
        backend, abort = HTTPBackend(server.url), threading.Event()
        stream = backend.stream(ask(), abort=abort)
        next(stream)
        abort.set()
        with pytest.raises(RequestAbortedError):
            next(stream)
        backend.close()


@every_form
def test_closing_the_backend_ends_what_runs_with_an_error(
    form: Form,
) -> None:
    servers: list[OddServer] = []
    with odd_server(hang(servers)) as server, ThreadPoolExecutor() as pool:
        servers.append(server)
        backend = HTTPBackend(server.url)
        running = pool.submit(form, backend, ask())
        while not server.posts:
            time.sleep(0.005)
        backend.close()
        with pytest.raises(RequestAbortedError, match="closed"):
            running.result(10)
        assert server.left.wait(10)
    assert not http_threads()


def test_a_closed_backend_starts_anew_and_closing_twice_is_nothing() -> None:
    with odd_server(answer) as server:
        backend = HTTPBackend(server.url)
        backend.close()
        for _ in range(5):
            assert backend.generate(ask()).content == "yes"
            backend.close()
            backend.close()
            assert not http_threads()
        assert collect(backend.stream(ask())).content == "yes"
        backend.close()


def test_closing_while_many_begin_neither_hangs_nor_leaks() -> None:
    with odd_server(answer) as server, ThreadPoolExecutor(8) as pool:
        backend = HTTPBackend(server.url)

        def call(number: int) -> str:
            try:
                form = list(FORMS.values())[number % 4]
                return str(form(backend, ask()).content)
            except RequestAbortedError:
                return "aborted"

        calls = [pool.submit(call, number) for number in range(60)]
        for _ in range(10):
            time.sleep(0.01)
            backend.close()
        assert {running.result(20) for running in calls} <= {"yes", "aborted"}
        backend.close()
    assert not http_threads()


def test_threads_and_loops_one_after_another_share_a_backend() -> None:
    with odd_server(answer) as server, ThreadPoolExecutor(8) as pool:
        backend = HTTPBackend(server.url)
        forms = [list(FORMS.values())[number % 4] for number in range(16)]
        answers = list(pool.map(lambda form: form(backend, ask()).content, forms))
        assert answers == ["yes"] * 16
        for _ in range(3):
            assert asyncio.run(backend.agenerate(ask())).content == "yes"
        assert http_threads() == ["asymspec-http"]
        backend.close()


async def many(backend: HTTPBackend) -> list[str]:
    answers = await asyncio.gather(*(backend.agenerate(ask()) for _ in range(20)))
    return [response.content for response in answers]


def test_one_loop_runs_many_requests_at_a_time() -> None:
    together = threading.Barrier(20, timeout=10)

    def meet(call: Call) -> None:
        together.wait()  # breaks where fewer than all come at a time
        answer(call)

    with odd_server(meet) as server:
        backend = HTTPBackend(server.url)
        assert asyncio.run(many(backend)) == ["yes"] * 20
        backend.close()


def test_a_backend_that_is_forgotten_ends_its_thread() -> None:
    with odd_server(answer) as server:
        backend = HTTPBackend(server.url)
        other = backend.with_arm("floor")
        backend.generate(ask())
        del backend
        gc.collect()
        assert http_threads()
        assert other.generate(ask()).content == "yes"
        del other
        gc.collect()
        end = time.monotonic() + 10
        while http_threads() and time.monotonic() < end:
            time.sleep(0.01)
        assert not http_threads()


def in_child(backend: HTTPBackend, results: Any) -> None:
    results.put((os.getpid(), backend.generate(ask()).content))
    backend.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_uses_a_loop_of_its_own() -> None:
    with odd_server(answer) as server:
        backend = HTTPBackend(server.url)
        backend.generate(ask())
        context = multiprocessing.get_context("fork")
        results = context.SimpleQueue()
        child = context.Process(target=in_child, args=(backend, results))
        child.start()
        child.join(20)
        assert child.exitcode == 0
        pid, content = results.get()
        assert (pid, content) == (child.pid, "yes")
        assert backend.generate(ask()).content == "yes"
        backend.close()


def test_a_stream_that_is_never_read_sends_nothing() -> None:
    with odd_server(answer) as server:
        backend = HTTPBackend(server.url)
        backend.stream(ask())
        backend.astream(ask())
        backend.close()
        assert server.calls == []


def test_a_server_started_again_is_reached_again() -> None:
    with odd_server(answer) as server:
        backend = HTTPBackend(server.url, max_retries=0)
        assert backend.generate(ask()).content == "yes"
    with pytest.raises(ConnectionFailedError):
        backend.generate(ask())
    backend.close()
