"""How calls end early: a client that leaves, a gateway that is told to stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import httpx
import pytest

from tests.gateway.scripted import EVENTS, Script, Upstream, chunk, chunks
from tests.gateway.serving import CHAT, WAIT_S, apart, ask, eventually, upstream
from tests.server.serving import ask_and_leave

Pair = tuple[Upstream, str]
STREAM = {**CHAT, "stream": True}
ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("body", [CHAT, STREAM])
def test_a_client_that_leaves_before_its_answer(pair: Pair, body: dict[str, object]) -> None:
    app, url = pair
    app.answer = lambda got: Script(hangs_before=True)
    ask_and_leave(url, "/v1/chat/completions", body, lambda: bool(app.calls))
    eventually(lambda: app.calls[0].end == "left")


def test_a_client_that_leaves_within_a_stream(pair: Pair) -> None:
    app, url = pair
    app.answer = lambda got: Script([chunk({"content": "a"})], headers=[EVENTS], hang=True)
    with httpx.stream("POST", url + "/v1/chat/completions", json=STREAM, timeout=WAIT_S) as answer:
        next(answer.iter_raw())
    eventually(lambda: app.calls[0].end == "left")


def test_a_client_that_leaves_frees_its_place() -> None:
    with apart(max_in_flight=1) as (app, url):
        app.answer = lambda got: Script(hangs_before=True)
        ask_and_leave(url, "/v1/chat/completions", CHAT, lambda: bool(app.calls))
        app.reset()
        eventually(lambda: ask(url).status_code == 200)
        eventually(lambda: "asymspec_gateway_open_requests 0.0" in httpx.get(url + "/metrics").text)


class Process:
    """`asymspec gateway` as a process of its own."""

    def __init__(self, *arguments: str, **environment: str) -> None:
        command = [sys.executable, "-m", "asymspec_agents", "gateway", "--port", "0", *arguments]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **environment},
        )

    def url(self) -> str:
        """Its address, once it serves."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("Ready: "), self.process.communicate(timeout=WAIT_S)
        return line.split()[1].removesuffix("/v1")

    def ended(self) -> tuple[int, str]:
        """Exit code and standard error."""
        _, error = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, error


def test_open_requests_may_end_when_the_gateway_is_stopped(tmp_path: Path) -> None:
    trace, keys = tmp_path / "trace.jsonl", tmp_path / "keys"
    keys.write_text("# ours\n\nclient-key\n")
    bearer = {"authorization": "Bearer client-key"}
    with upstream() as (app, address):
        go = threading.Event()

        def answer(got: object) -> Script:
            pieces = [piece for event in chunks("a", "b", asymspec={}) for piece in (event, 0.2)]
            return Script(pieces, headers=[EVENTS])

        app.answer = answer
        gateway = Process(
            "--upstream", address, "--api-key-file", str(keys), "--trace", str(trace),
            "--cache", str(tmp_path / "cache.sqlite"), ASYMSPEC_UPSTREAM_API_KEY="gateway-key",
        )  # fmt: skip
        url = gateway.url()
        assert ask(url).status_code == 401
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(ask(url, STREAM, headers=bearer).content))
        thread.start()
        eventually(lambda: bool(app.calls))
        gateway.process.send_signal(signal.SIGTERM)
        thread.join(WAIT_S)
        go.set()
    assert got == [b"".join(chunks("a", "b", asymspec={}))]
    assert gateway.ended() == (0, "")
    assert app.calls[0].header("authorization") == "Bearer gateway-key"
    events = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [event["event"] for event in events] == ["view", "gateway", "response"]
    assert events[1]["request_id"] == events[2]["request_id"]
    assert "Hello" not in trace.read_text()
    assert (tmp_path / "cache.sqlite").stat().st_mode & 0o777 == 0o600


def test_those_that_do_not_end_are_ended_and_told() -> None:
    with upstream() as (app, address):
        app.answer = lambda got: Script([chunk({"content": "a"})], headers=[EVENTS], hang=True)
        gateway = Process("--upstream", address, "--grace-s", "0.3")
        url = gateway.url()
        with httpx.stream("POST", url + "/v1/chat/completions", json=STREAM, timeout=WAIT_S) as answer:
            pieces = answer.iter_raw()
            first = next(pieces)
            gateway.process.send_signal(signal.SIGTERM)
            rest = b"".join(pieces)
        assert gateway.ended() == (0, "")
        eventually(lambda: app.calls[0].end == "left")
    assert first == chunk({"content": "a"})
    assert b"gateway_stopping" in rest
    assert rest.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ((), "--upstream: a gateway needs one"),
        (("--upstream", "ftp://a"), "must begin with http"),
        (("--upstream", "http://u:p@a"), "user name or password"),
        (("--upstream", "http://127.0.0.1:1", "--route", "x"), "--route 'x' must be NAME=VALUE"),
        (("--upstream", "http://127.0.0.1:1", "--shadow", "2"), "shadow_rate=2.0 must be in [0, 1]"),
        (("--upstream", "http://127.0.0.1:1", "--mode", "none"), "mode"),
        (("--upstream", "http://127.0.0.1:1", "--route-api-key-file", "a=b"), "no --route a"),
        (("--upstream", "http://127.0.0.1:1", "--api-key-file", "/nowhere"), "/nowhere: No such file"),
        (("--upstream", "http://127.0.0.1:1", "--check-url", "file:///a"), "check_url"),
    ],
)
def test_what_it_cannot_be_started_with(
    arguments: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from asymspec_agents.cli.main import main

    assert main(["gateway", "--port", "0", *arguments]) == 2
    assert told in capsys.readouterr().err


def test_a_plain_upstream_is_named_at_the_start(capsys: pytest.CaptureFixture[str]) -> None:
    from asymspec_agents.cli.main import main

    with upstream(None) as (_, address):
        assert main(["gateway", "--port", "0", "--upstream", address]) == 2
    told = capsys.readouterr().err
    assert "does not speak AsymSpec" in told
    assert "--on-plain-upstream compress" in told
