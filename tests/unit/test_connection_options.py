"""A server's address, key and headers: checked before anything is sent, and kept out of every text."""

from __future__ import annotations

import traceback

import pytest

from asymspec_agents.backends import ChatRequest, HTTPBackend
from asymspec_agents.backends.connection_options import ConnectionOptions
from asymspec_agents.errors import (
    ConfigurationError,
)
from tests.odd_server import ANSWER, Call, free_port, odd_server, outcome

ASKED = ChatRequest(messages=[{"role": "user", "content": "Hello"}], asymspec={"edits": []})
PLAIN = ChatRequest(messages=[{"role": "user", "content": "Hello"}])
SECRET = "sk-very-secret"


def reset(call: Call) -> None:
    """Closes the connection without a byte."""


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1//", "/a/b", "/a/b/v1", "/a/b/v1/", "/v1/v1"])
def test_addresses_end_in_v1_or_not_and_may_have_a_prefix(path: str) -> None:
    with odd_server(lambda call: call.reply(ANSWER), handshake=None) as server:
        backend = HTTPBackend(server.url + path, on_missing_asymspec="warn", model="m")
        backend.generate(PLAIN)
        backend.close()
        prefix = {"/v1/v1": "/v1"}.get(path, "/a/b" if path.startswith("/a") else "")
        assert server.posts[0].path == f"{prefix}/v1/chat/completions"
        assert backend.base_url == server.url + prefix


@pytest.mark.parametrize(
    ("base_url", "root"),
    [
        ("http://v1", "http://v1"),
        ("https://API.example.com:443/v1", "https://api.example.com"),
        ("http://[::1]:8000/v1", "http://[::1]:8000"),
        ("http://münchen.example/v1", "http://xn--mnchen-3ya.example"),
    ],
)
def test_addresses_are_kept_whole(base_url: str, root: str) -> None:
    assert ConnectionOptions(base_url).base_url == root


WRONG_OPTIONS: list[dict[str, object]] = [
    {"base_url": ""},
    {"base_url": "localhost:8000"},
    {"base_url": "ftp://host"},
    {"base_url": "http://"},
    {"base_url": "http://host:port"},
    {"base_url": f"http://user:{SECRET}@host"},
    {"base_url": f"http://user:{SECRET}@host:99999999"},
    {"base_url": f"http://host/v1?key={SECRET}"},
    {"base_url": "http://host/v1#part"},
    {"base_url": None},
    {"timeout_s": 0},
    {"timeout_s": float("nan")},
    {"timeout_s": "5"},
    {"connect_timeout_s": -1},
    {"connect_timeout_s": None},
    {"max_retries": -1},
    {"max_retries": 1.5},
    {"max_retries": True},
    {"api_key": ""},
    {"api_key": f"{SECRET}\n"},
    {"api_key": f"{SECRET} {SECRET}"},
    {"api_key": f"{SECRET}é"},
    {"api_key": SECRET.encode()},
    {"headers": {"a b": "c"}},
    {"headers": {"": "c"}},
    {"headers": {"x-key": f"{SECRET}\r\n"}},
    {"headers": {"x-key": f"{SECRET}é"}},
    {"headers": {"x-key": 5}},
]


@pytest.mark.parametrize("options", WRONG_OPTIONS, ids=range(len(WRONG_OPTIONS)))
def test_options_are_checked_before_anything_is_sent(options: dict[str, object]) -> None:
    (name,) = options
    with pytest.raises(ConfigurationError, match=name) as caught:
        HTTPBackend(**{"base_url": "http://127.0.0.1:1", **options})
    assert SECRET not in "".join(traceback.format_exception_only(caught.value))
    if options.get("base_url") is None or "@" not in str(options["base_url"]):
        assert SECRET not in str(caught.value.__cause__)


def test_on_missing_asymspec_is_checked() -> None:
    with pytest.raises(ConfigurationError, match="on_missing_asymspec"):
        HTTPBackend("http://127.0.0.1:1", on_missing_asymspec="ignore")


@pytest.fixture
def failing() -> list[BaseException]:
    """Exceptions of every kind that a backend with a key raises."""
    raised = []
    handlers = {
        "error": lambda call: call.reply({"error": {"message": "no"}}, 500),
        "reset": reset,
        "garbage": lambda call: call.reply(b"<html>"),
        "redirect": lambda call: call.reply(b"", 301),
    }
    for handler in handlers.values():
        with odd_server(handler) as server:
            backend = HTTPBackend(server.url, api_key=SECRET, headers={"x-other": SECRET}, max_retries=0)
            raised.append(outcome(lambda backend=backend: backend.generate(ASKED)))
            backend.close()
    backend = HTTPBackend(f"http://127.0.0.1:{free_port()}", api_key=SECRET, max_retries=0)
    raised.append(outcome(lambda: backend.generate(ASKED)))
    backend.close()
    return raised


def test_keys_are_in_no_text(failing: list[BaseException]) -> None:
    assert len(failing) == 5
    for error in failing:
        texts = ["".join(traceback.format_exception(error)), repr(error), str(error)]
        assert SECRET not in "\n".join(texts)
    backend = HTTPBackend("http://host", api_key=SECRET, headers={"x-other": SECRET})
    assert SECRET not in repr(backend) + str(backend)
    assert SECRET not in repr(ConnectionOptions("http://host", api_key=SECRET, headers={"a": SECRET}))


def test_key_and_headers_are_sent_and_headers_outrank_the_key() -> None:
    with odd_server(lambda call: call.reply(ANSWER)) as server:
        for headers in ({"X-Team": "a"}, {"Authorization": "Basic abc"}):
            backend = HTTPBackend(server.url, api_key=SECRET, headers=headers)
            backend.generate(ASKED)
            backend.close()
        first, second = server.posts
    assert (first.headers["authorization"], first.headers["x-team"]) == (f"Bearer {SECRET}", "a")
    assert second.headers["authorization"] == "Basic abc"
    assert first.headers["user-agent"].startswith("asymspec-agents/")
