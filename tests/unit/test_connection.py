"""Reaching a server: what is tried again, timeouts, odd and broken answers, and keys kept secret."""

from __future__ import annotations

import email.utils
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asymspec_agents.backends import ChatRequest, HTTPBackend, collect
from asymspec_agents.backends import connection as connection_module
from asymspec_agents.backends.retries import FIRST_PAUSE_S, LONGEST_PAUSE_S, pause_s
from asymspec_agents.errors import (
    ConnectionFailedError,
    ResponseTimeoutError,
    ServerError,
)
from tests.odd_server import ANSWER, Call, chunk, free_port, odd_server, outcome, slowly, sse

ASKED = ChatRequest(messages=[{"role": "user", "content": "Hello"}], asymspec={"edits": []})
END = chunk({}, "stop", asymspec={})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, str | None]]:
    """What was asked of the pauses between attempts, which take no time here."""
    asked: list[tuple[int, str | None]] = []

    def no_pause(attempt: int, retry_after: str | None = None) -> float:
        asked.append((attempt, retry_after))
        return 0

    monkeypatch.setattr(connection_module, "pause_s", no_pause)
    return asked


@pytest.mark.parametrize("max_retries", [0, 2])
def test_a_connection_that_fails_is_tried_again(
    pauses: list[tuple[int, str | None]], max_retries: int
) -> None:
    backend = HTTPBackend(f"http://127.0.0.1:{free_port()}", max_retries=max_retries)
    with pytest.raises(ConnectionFailedError, match="is the server running"):
        backend.generate(ASKED)
    assert pauses == [(attempt, None) for attempt in range(max_retries)]
    backend.close()


@pytest.mark.parametrize("status", [429, 503])
def test_busy_servers_are_asked_again_after_the_time_they_name(
    pauses: list[tuple[int, str | None]], status: int
) -> None:
    def busy_twice(call: Call) -> None:
        if len(server.posts) <= 2:
            call.reply({"error": {"message": "busy"}}, status, retry_after=str(len(server.posts)))
        else:
            call.reply(ANSWER)

    with odd_server(busy_twice) as server:
        backend = HTTPBackend(server.url)
        assert backend.generate(ASKED).content == "yes"
        backend.close()
        assert pauses == [(0, "1"), (1, "2")]
        assert len({call.headers["x-request-id"] for call in server.posts}) == 1


@pytest.mark.parametrize("is_stream", [False, True])
def test_a_server_that_stays_busy_is_an_error_in_the_end(
    pauses: list[tuple[int, str | None]], is_stream: bool
) -> None:
    error = {"error": {"message": "full up", "code": "queue_full"}}
    with odd_server(lambda call: call.reply(error, 429)) as server:
        backend = HTTPBackend(server.url, max_retries=2)
        raised = outcome(lambda: collect(backend.stream(ASKED)) if is_stream else backend.generate(ASKED))
        backend.close()
        assert len(server.posts) == 3
    assert isinstance(raised, ServerError)
    assert (raised.status, raised.code) == (429, "queue_full")
    assert "full up" in str(raised)


@pytest.mark.parametrize("status", [400, 401, 404, 408, 409, 422, 500, 502, 504])
def test_nothing_else_is_tried_again(pauses: list[tuple[int, str | None]], status: int) -> None:
    with odd_server(lambda call: call.reply({"error": {"message": "no"}}, status)) as server:
        backend = HTTPBackend(server.url)
        raised = outcome(lambda: backend.generate(ASKED))
        backend.close()
        assert len(server.posts) == 1
    assert isinstance(raised, ServerError)
    assert raised.status == status
    assert pauses == []


def reset(call: Call) -> None:
    """Closes the connection without a byte."""


def half(call: Call) -> None:
    call.begin(kind="application/json", content_length="500")
    call.send(b'{"choices"')


def half_stream(call: Call) -> None:
    call.begin()
    call.send(sse(chunk({"content": "one "}))[:-5])


def half_chunked_stream(call: Call) -> None:
    call.begin(transfer_encoding="chunked")
    data = sse(chunk({"content": "one "}))
    call.send(f"{len(data):x}\r\n".encode() + data + b"\r\n")


@pytest.mark.parametrize(
    ("handler", "is_stream"),
    [
        (reset, False),
        (reset, True),
        (half, False),
        (half_stream, True),
        (half_chunked_stream, True),
    ],
)
def test_a_request_that_may_have_run_is_not_sent_again(
    pauses: list[tuple[int, str | None]], handler: object, is_stream: bool
) -> None:
    with odd_server(handler) as server:
        backend = HTTPBackend(server.url)
        raised = outcome(lambda: collect(backend.stream(ASKED)) if is_stream else backend.generate(ASKED))
        backend.close()
        assert len(server.posts) == 1
    assert isinstance(raised, ConnectionFailedError)
    assert "before the answer was whole" in str(raised)
    assert ASKED.request_id in str(raised)
    assert pauses == []


@pytest.mark.parametrize(
    ("retry_after", "lowest", "highest"),
    [
        ("0", 0, 0),
        (" 7 ", 7, 7),
        ("9" * 400, LONGEST_PAUSE_S, LONGEST_PAUSE_S),
        ("-5", FIRST_PAUSE_S / 2, FIRST_PAUSE_S),
        ("soon", FIRST_PAUSE_S / 2, FIRST_PAUSE_S),
        ("²", FIRST_PAUSE_S / 2, FIRST_PAUSE_S),
        ("", FIRST_PAUSE_S / 2, FIRST_PAUSE_S),
    ],
)
def test_pauses_are_what_the_server_asks_for(retry_after: str, lowest: float, highest: float) -> None:
    assert lowest <= pause_s(0, retry_after) <= highest


@pytest.mark.parametrize(("later_s", "lowest", "highest"), [(20, 10, 20), (-9, 0, 0), (9e6, 30, 30)])
def test_a_pause_may_be_asked_for_until_a_date(later_s: float, lowest: float, highest: float) -> None:
    date = email.utils.formatdate(time.time() + later_s, usegmt=True)
    assert lowest <= pause_s(0, date) <= highest


@given(st.integers(0, 10**6), st.none() | st.text())
def test_a_pause_is_a_time_that_can_be_waited(attempt: int, retry_after: str | None) -> None:
    assert 0 <= pause_s(attempt, retry_after) <= LONGEST_PAUSE_S


def test_pauses_grow() -> None:
    assert max(pause_s(0) for _ in range(9)) <= min(pause_s(2) for _ in range(9))


def test_a_silent_server_is_a_timeout() -> None:
    with odd_server(lambda call: call.wait_until_left() and None) as server:
        backend = HTTPBackend(server.url, timeout_s=0.1)
        for call in (lambda: backend.generate(ASKED), lambda: collect(backend.stream(ASKED))):
            raised = outcome(call)
            assert isinstance(raised, ResponseTimeoutError)
            assert "0.1 s" in str(raised)
        backend.close()


def test_a_stream_that_falls_silent_is_a_timeout_and_a_slow_one_is_not() -> None:
    word = sse(chunk({"content": "a"}))
    pieces = [word[:20], word[20:], b": waiting\n\n", sse(END, "[DONE]")]

    def slow(call: Call) -> None:
        call.begin()
        slowly(call, pieces, 0.15)

    def falls_silent(call: Call) -> None:
        call.begin()
        call.send(pieces[0] + pieces[1])
        call.wait_until_left()

    with odd_server(slow) as server:
        backend = HTTPBackend(server.url, timeout_s=0.4)  # the whole takes longer than that
        assert collect(backend.stream(ASKED)).content == "a"
        backend.close()
    with odd_server(falls_silent) as server:
        backend = HTTPBackend(server.url, timeout_s=0.1)
        stream = backend.stream(ASKED)
        assert next(stream).content == "a"
        with pytest.raises(ResponseTimeoutError):
            next(stream)
        backend.close()
