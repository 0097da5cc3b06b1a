"""Servers that are not AsymSpec, and answers that are none: errors of this package, or one warning."""

from __future__ import annotations

import logging

import pytest

from asymspec_agents.backends import ChatRequest, HTTPBackend, collect
from asymspec_agents.errors import (
    BackendError,
    ConnectionFailedError,
    NotAsymSpecError,
    ServerError,
)
from tests.odd_server import ANSWER, HANDSHAKE, Call, chunk, odd_server, outcome, sse

ASKED = ChatRequest(messages=[{"role": "user", "content": "Hello"}], asymspec={"edits": []})
PLAIN = ChatRequest(messages=[{"role": "user", "content": "Hello"}])


NOT_ASYMSPEC = {
    "missing": lambda call: call.reply({"detail": "Not Found"}, 404),
    "html": lambda call: call.reply(b"<!doctype html>", kind="text/html"),
    "method": lambda call: call.reply(b"", 405),
    "other object": lambda call: call.reply({"message": "hello"}),
    "no object": lambda call: call.reply(["hello"]),
    "no modes": lambda call: call.reply({**HANDSHAKE, "modes": []}),
    "another version": lambda call: call.reply({**HANDSHAKE, "version": 2}),
    "odd limit": lambda call: call.reply({**HANDSHAKE, "max_verifier_tokens": "many"}),
}


@pytest.mark.parametrize("kind", NOT_ASYMSPEC)
def test_a_server_that_is_not_asymspec_is_an_error_or_one_warning(
    kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    def handler(call: Call) -> None:
        if call.path == "/v1/asymspec":
            NOT_ASYMSPEC[kind](call)
        elif call.path == "/v1/models":
            call.reply({"data": [{"id": "theirs"}]})
        else:
            call.reply(ANSWER | {"asymspec": None})

    with odd_server(handler, handshake=None) as server:
        backend = HTTPBackend(server.url)
        raised = outcome(lambda: backend.generate(ASKED))
        assert isinstance(raised, NotAsymSpecError)
        assert server.url in str(raised)
        assert "asymspec serve" in str(raised)
        assert not server.posts
        backend.close()
        backend = HTTPBackend(server.url, on_missing_asymspec="warn")
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                response = backend.generate(ASKED)
        assert (response.content, response.report) == ("yes", None)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "full context" in caplog.text
        assert backend.capabilities.modes == ()
        backend.close()
        assert {call.body["model"] for call in server.posts} == {"theirs"}
        assert not any("asymspec" in call.body for call in server.posts)


def test_an_answer_without_a_report_is_an_error() -> None:
    plain = {name: value for name, value in ANSWER.items() if name != "asymspec"}

    def handler(call: Call) -> None:
        if call.body.get("stream"):
            call.begin()
            call.send(sse(chunk({"content": "yes"}), chunk({}, "stop"), "[DONE]"))
        else:
            call.reply(plain)

    with odd_server(handler) as server:
        backend = HTTPBackend(server.url)
        for call in (lambda: backend.generate(ASKED), lambda: collect(backend.stream(ASKED))):
            assert isinstance(outcome(call), NotAsymSpecError)
        assert backend.generate(PLAIN).report is None
        backend.close()


@pytest.mark.parametrize("status", [401, 403, 500])
def test_an_error_of_the_handshake_is_that_error_and_not_a_missing_asymspec(status: int) -> None:
    error = {"error": {"message": "the API key is wrong", "code": "invalid_api_key"}}
    with odd_server(lambda call: call.reply(error, status), handshake=None) as server:
        for on_missing in ("error", "warn"):
            backend = HTTPBackend(server.url, on_missing_asymspec=on_missing)
            raised = outcome(lambda backend=backend: backend.capabilities)
            assert isinstance(raised, ServerError)
            assert raised.status == status
            assert "the API key is wrong" in str(raised)
            backend.close()


GARBAGE = {
    "html": (b"<html>", BackendError),
    "list": (b"[]", BackendError),
    "no choices": (b"{}", BackendError),
    "no finish reason": (b'{"choices": [{"message": {"content": "a"}}]}', BackendError),
    "not utf-8": (b'{"a": "\xff"}', BackendError),
    "error with 200": (b'{"error": {"message": "quota", "code": 429}}', ServerError),
    "bad report": (b'{"choices": [{"finish_reason": "stop"}], "asymspec": {"blocks": "x"}}', BackendError),
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_answers_that_are_none_are_errors(kind: str) -> None:
    data, error = GARBAGE[kind]

    def handler(call: Call) -> None:
        if call.body.get("stream"):
            call.begin()
            call.send(b"data: " + data + b"\n\ndata: [DONE]\n\n")
        else:
            call.reply(data)

    with odd_server(handler) as server:
        backend = HTTPBackend(server.url)
        for call in (lambda: backend.generate(ASKED), lambda: collect(backend.stream(ASKED))):
            assert type(outcome(call)) is error
        backend.close()


def test_compressed_garbage_is_an_error() -> None:
    with odd_server(lambda call: call.reply(b"no gzip", content_encoding="gzip")) as server:
        backend = HTTPBackend(server.url)
        assert "no valid answer" in str(outcome(lambda: backend.generate(ASKED)))
        backend.close()


def test_no_http_at_all_is_an_error() -> None:
    with odd_server(lambda call: call.send(b"SSH-2.0-OpenSSH\r\n\r\n"), handshake=None) as server:
        backend = HTTPBackend(server.url)
        assert isinstance(outcome(lambda: backend.generate(ASKED)), ConnectionFailedError)
        backend.close()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_an_error_that_names_its_target(status: int) -> None:
    def handler(call: Call) -> None:
        call.reply(b"", status, location="http://127.0.0.1:1/v1/asymspec")

    with odd_server(handler, handshake=None) as server:
        backend = HTTPBackend(server.url)
        raised = outcome(lambda: backend.generate(ASKED))
        assert isinstance(raised, ServerError)
        assert "http://127.0.0.1:1/v1/asymspec" in str(raised)
        backend.close()
