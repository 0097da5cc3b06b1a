"""The bounded queue before the engine: order, refusals, places given up, start and end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from asymspec_agents.backends import ChatDelta
from asymspec_agents.errors import RequestAbortedError
from asymspec_agents.server.app import create_app
from asymspec_agents.server.queue import DecodeQueue, NoStepYetError, QueueFullError

from .serving import WAIT_S, HeldBackend, ask_and_leave, eventually, get, post, serving, text_of

PATH = "/v1/chat/completions"


def chat(text: str, **fields: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}], **fields}


@contextlib.contextmanager
def asking(url: str) -> Iterator[Any]:
    """Sends requests from threads; returns futures of the answers."""
    with ThreadPoolExecutor(8) as pool, httpx.Client(base_url=url, timeout=WAIT_S) as client:

        def ask(text: str) -> Future[httpx.Response]:
            return pool.submit(client.post, PATH, json=chat(text))

        ask.num_requests = lambda: client.get("/health").json()["num_requests"]
        yield ask


def test_a_full_queue_is_a_429_with_the_time_to_wait_and_others_are_answered_in_order() -> None:
    backend = HeldBackend()
    with serving(backend, max_waiting=2) as url, asking(url) as ask:
        waiting = []
        for number in range(3):
            waiting.append(ask(str(number)))
            eventually(lambda number=number: ask.num_requests() == number + 1)
        eventually(lambda: len(backend.requests) == 1)
        for is_stream in (False, True):
            refused = post(url + PATH, json=chat("x", stream=is_stream))
            assert refused.status_code == 429
            assert 1 <= int(refused.headers["retry-after"]) <= 60
            error = refused.json()["error"]
            assert (error["code"], error["param"]) == ("queue_full", None)
            assert "2 requests are waiting" in error["message"]
        backend.let_go(9)
        assert [answer.result().status_code for answer in waiting] == [200] * 3
        assert [text_of(request) for request in backend.requests] == ["0", "1", "2"]
        backend.let_go(3)
        assert ask("again").result().status_code == 200


def test_without_waiting_places_one_request_at_a_time_is_taken() -> None:
    backend = HeldBackend()
    with serving(backend, max_waiting=0) as url, asking(url) as ask:
        first = ask("a")
        eventually(lambda: len(backend.requests) == 1)
        assert ask("b").result().status_code == 429
        backend.let_go(3)
        assert first.result().status_code == 200


def test_a_client_that_leaves_while_it_waits_frees_its_place_at_once() -> None:
    backend = HeldBackend()
    with serving(backend, max_waiting=1) as url, asking(url) as ask:
        first = ask("first")
        eventually(lambda: len(backend.requests) == 1)
        ask_and_leave(url, PATH, chat("leaves"), lambda: ask.num_requests() == 2)
        eventually(lambda: ask.num_requests() == 1)
        with httpx.stream("POST", url + PATH, json=chat("leaves too", stream=True), timeout=WAIT_S) as answer:
            assert answer.status_code == 200
            assert ask("no room").result().status_code == 429
        eventually(lambda: ask.num_requests() == 1)
        last = ask("last")
        eventually(lambda: ask.num_requests() == 2)
        backend.let_go(6)
        assert [first.result().status_code, last.result().status_code] == [200, 200]
        assert [text_of(request) for request in backend.requests] == ["first", "last"]


def test_bad_requests_take_no_place() -> None:
    backend = HeldBackend()
    with serving(backend, max_waiting=0) as url, asking(url) as ask:
        for _ in range(3):
            assert post(url + PATH, json={}).status_code == 400
        assert ask.num_requests() == 0


def test_a_server_that_stops_tells_whoever_waits() -> None:
    backend = HeldBackend()
    with ThreadPoolExecutor(4) as pool:
        with serving(backend) as url:
            whole = [pool.submit(post, url + PATH, json=chat("a")) for _ in range(2)]
            stream = pool.submit(post, url + PATH, json=chat("b", stream=True))
            eventually(lambda: get(url + "/health").json()["num_requests"] == 3)
        for answer in whole:
            assert answer.result().status_code == 503
            assert answer.result().json()["error"]["code"] == "request_aborted"
        assert '"request_aborted"' in stream.result().text
    assert set(backend.ends) <= {"aborted", "closed"}


def test_a_server_without_its_lifespan_refuses_instead_of_waiting_for_ever() -> None:
    async def ask() -> list[httpx.Response]:
        transport = httpx.ASGITransport(create_app({"held": HeldBackend()}))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return [await client.get("/health"), await client.post(PATH, json=chat("a"))]

    for answer in asyncio.run(ask()):
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "not_serving"


def test_an_application_may_be_started_twice() -> None:
    app = create_app({"held": HeldBackend(is_held=False)})

    async def ask() -> int:
        transport = httpx.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx.AsyncClient(transport=transport, base_url="http://test") as client,
        ):
            return (await client.post(PATH, json=chat("a"))).status_code

    assert [asyncio.run(ask()), asyncio.run(ask())] == [200, 200]
    assert not app.state.queue.is_alive


# The queue alone.


@contextlib.contextmanager
def started(max_waiting: int = 4) -> Iterator[DecodeQueue]:
    queue = DecodeQueue(max_waiting)
    queue.start()
    try:
        yield queue
    finally:
        queue.stop()
    assert not queue.is_alive


def test_a_request_given_up_while_it_waits_is_let_go_of_and_told() -> None:
    async def steps() -> None:
        with started() as queue:
            gate = threading.Event()

            def held() -> Iterator[ChatDelta]:
                gate.wait(10)
                yield ChatDelta(content="a")

            first = queue.submit(queue.reserve(), held())
            place = queue.reserve()
            second = queue.submit(place, iter([ChatDelta(content="b")]))
            with pytest.raises(NoStepYetError):
                await second.next(0.01)
            place.give_up()
            with pytest.raises(RequestAbortedError):
                await second.next(5)
            assert queue.num_requests == 1
            assert second not in queue._waiting  # its prompt must not stay in memory
            gate.set()
            assert await first.next(5) == ChatDelta(content="a")
            assert await first.next(5) is None
            place.give_up()  # further calls do nothing
            place.free()
            assert queue.num_requests == 0

    asyncio.run(steps())


def test_a_place_given_up_while_its_request_is_prepared_is_never_decoded() -> None:
    async def steps() -> None:
        with started() as queue:
            place = queue.reserve()
            place.give_up()
            answer = queue.submit(place, iter([ChatDelta(content="never")]))
            with pytest.raises(RequestAbortedError):
                await answer.next(5)

    asyncio.run(steps())


def test_places_are_bounded_and_come_back() -> None:
    with started(max_waiting=1) as queue:
        places = [queue.reserve(), queue.reserve()]
        with pytest.raises(QueueFullError) as full:
            queue.reserve()
        assert full.value.retry_after_s >= 1
        places[0].give_up()
        queue.reserve()
        assert queue.num_requests == 2


def test_a_reader_whose_loop_is_gone_ends_its_request() -> None:
    aborted = threading.Event()
    with started() as queue:
        place = queue.reserve()

        def endless() -> Iterator[ChatDelta]:
            try:
                while True:
                    yield ChatDelta(content="a")
            finally:
                aborted.set()

        async def submit() -> None:
            queue.submit(place, endless())

        asyncio.run(submit())
        assert aborted.wait(10)
        eventually(lambda: queue.num_requests == 0)
