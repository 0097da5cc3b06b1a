"""Server and client as processes: killed at any moment, the other side hears of it and leaks nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from asymspec_agents.backends import ChatRequest, HTTPBackend
from asymspec_agents.errors import ConfigurationError, ConnectionFailedError
from asymspec_agents.server.running import listen
from tests.architecture import ROOT

from .serving import WAIT_S, eventually, get, post

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")


@dataclass
class ServerProcess:
    """A server, its address, and what it wrote."""

    process: subprocess.Popen[str]
    url: str
    lines: list[str]

    @property
    def num_requests(self) -> int:
        return int(get(self.url + "/health").json()["num_requests"])

    def end(self) -> int:
        """Its exit code, waited for."""
        return self.process.wait(WAIT_S)

    @property
    def text(self) -> str:
        return "".join(self.lines)


@contextlib.contextmanager
def started(*arguments: str) -> Iterator[ServerProcess]:
    """A server process, once it is ready; it is killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
    )
    assert process.stdout is not None
    lines: list[str] = []
    address: list[str] = []

    def read(output: Any) -> None:
        for line in output:
            lines.append(line)
            found = re.match(r"Ready: (http://[^/]+)/v1", line)
            if found:
                address.append(found[1])

    reader = threading.Thread(target=read, args=(process.stdout,))
    reader.start()
    try:
        eventually(lambda: bool(address) or process.poll() is not None)
        assert address, "".join(lines)
        yield ServerProcess(process, address[0], lines)
    finally:
        process.kill()
        process.wait(WAIT_S)
        reader.join(WAIT_S)
        process.stdout.close()


HELD = ("tests.server.held_server", "held")


def asked(text: str, **fields: Any) -> ChatRequest:
    return ChatRequest(messages=[{"role": "user", "content": text}], **fields)


def sockets() -> int:
    """How many sockets this process has open."""
    num_sockets = 0
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            num_sockets += os.readlink(f"/proc/self/fd/{number}").startswith("socket:")
    return num_sockets


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts sockets in /proc")


async def read_all(backend: HTTPBackend, request: ChatRequest) -> None:
    async for _ in backend.astream(request):
        pass


FORMS = {
    "generate": lambda backend, text: backend.generate(asked(text)),
    "stream": lambda backend, text: list(backend.stream(asked(text))),
    "agenerate": lambda backend, text: asyncio.run(backend.agenerate(asked(text))),
    "astream": lambda backend, text: asyncio.run(read_all(backend, asked(text))),
}


@needs_proc
@pytest.mark.parametrize("text", ["decode", "prefill"])
def test_a_server_killed_while_it_reads_writes_or_lets_wait_is_an_error_at_once(text: str) -> None:
    before = sockets(), threading.active_count()
    with started(*HELD) as server, ThreadPoolExecutor(len(FORMS)) as pool:
        backend = HTTPBackend(server.url, max_retries=0)
        calls = []
        for number, form in enumerate(FORMS.values(), 1):  # the first runs, the others wait
            calls.append(pool.submit(form, backend, text))
            eventually(lambda number=number: server.num_requests == number)
        server.process.kill()
        server.end()
        killed = time.monotonic()
        for call in calls:
            with pytest.raises(ConnectionFailedError, match="before the answer was whole"):
                call.result(WAIT_S)
        assert time.monotonic() - killed < WAIT_S / 2
        with pytest.raises(ConnectionFailedError, match="is the server running"):
            backend.generate(asked("again"))
        backend.close()
    eventually(lambda: (sockets(), threading.active_count()) == before)


CLIENT = """
import sys, threading
from asymspec_agents.backends import ChatRequest, HTTPBackend
backend = HTTPBackend(sys.argv[1])
def ask(text):
    for delta in backend.stream(ChatRequest(messages=[{"role": "user", "content": text}])):
        print("word", flush=True)
threads = [threading.Thread(target=ask, args=(text,)) for text in (sys.argv[2], "a", "b")]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


@contextlib.contextmanager
def client_process(server: ServerProcess, text: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process with one request that runs and two that wait."""
    command = [sys.executable, "-c", CLIENT, server.url, text]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as client:
        try:
            eventually(lambda: server.num_requests == 3)
            yield client
        finally:
            client.kill()


def test_a_killed_client_frees_its_places_and_the_next_request_is_answered() -> None:
    with started(*HELD) as server:
        for text in ("decode", "prefill"):
            with client_process(server, text) as client:
                if text == "decode":
                    assert client.stdout is not None
                    assert client.stdout.readline() == b"word\n"
                client.kill()
                eventually(lambda: server.num_requests == 0)
            backend = HTTPBackend(server.url)
            assert backend.generate(asked("quick", asymspec={"edits": []})).content == "one "
            backend.close()
        assert "Traceback" not in server.text


@pytest.mark.parametrize(("number", "kind"), [("SIGTERM", "held"), ("SIGINT", "held"), ("SIGTERM", "stuck")])
def test_a_server_told_to_stop_ends_its_requests_and_then_itself(number: str, kind: str) -> None:
    with started("tests.server.held_server", kind) as server, ThreadPoolExecutor() as pool:
        url = server.url + "/v1/chat/completions"
        body = {"messages": [{"role": "user", "content": "decode"}]}
        stream = pool.submit(post, url, json={**body, "stream": True})
        eventually(lambda: server.num_requests == 1)
        whole = pool.submit(post, url, json=body)
        eventually(lambda: server.num_requests == 2)
        server.process.send_signal(getattr(signal, number))
        assert server.end() == 0
        assert whole.result(WAIT_S).status_code == 503
        assert whole.result().json()["error"]["code"] == "request_aborted"
        if kind == "held":
            assert '"request_aborted"' in stream.result(WAIT_S).text
        else:
            with pytest.raises(httpx.RemoteProtocolError):
                stream.result(WAIT_S)
    assert "Traceback" not in server.text
    assert "Error" not in server.text


def test_an_idle_server_told_to_stop_says_nothing() -> None:
    with started(*HELD) as server:
        assert get(server.url + "/health").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0
    assert server.lines == [f"Ready: {server.url}/v1\n"]


def test_a_port_in_use_is_an_error_before_any_model_is_loaded() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=rf"port={port}.*is in use"):
            listen("127.0.0.1", port)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "asymspec_agents",
                "serve",
                "--port",
                str(port),
                "--verifier",
                "/no/such/model",
            ],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=WAIT_S,
        )
    assert done.returncode == 2
    assert f"port={port}" in done.stderr
    assert "in use" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Loading" not in done.stdout


def test_addresses_that_cannot_be_listened_at_are_errors() -> None:
    for host, port, problem in (
        ("127.0.0.1", -1, "port=-1"),
        ("127.0.0.1", 65_536, "port=65536"),
        ("no.such.host.invalid", 0, "host='no.such.host.invalid'"),
        ("192.0.2.1", 0, "host='192.0.2.1'"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            listen(host, port)


@pytest.mark.full
def test_the_command_serves_two_models_survives_its_clients_and_stops_when_told(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from tests.engine.tiny_folder import ask, random_backend, save_pair

    verifier, drafter = save_pair(tmp_path)
    arguments = ["--verifier", str(verifier), "--drafter", str(drafter), "--port", "0", "--dtype", "float32"]
    trace = tmp_path / "trace.jsonl"
    with started("asymspec_agents", "serve", *arguments, "--trace", str(trace)) as server:
        with client_process(server, "Tell me a long story.") as client:
            assert client.stdout is not None
            assert client.stdout.readline() == b"word\n"
            client.kill()
        eventually(lambda: server.num_requests == 0)
        backend = HTTPBackend(server.url)
        assert backend.generate(ask()).content == random_backend().generate(ask()).content
        backend.close()
        long = {"messages": [{"role": "user", "content": "Another one."}], "stream": True}
        with httpx.stream("POST", server.url + "/v1/chat/completions", json=long, timeout=WAIT_S) as answer:
            pieces = answer.iter_bytes()
            assert next(pieces)
            server.process.send_signal(signal.SIGTERM)
            assert b"".join(pieces).endswith(b"data: [DONE]\n\n")
        assert server.end() == 0
    assert "Traceback" not in server.text
    events = [json.loads(line) for line in trace.read_text("utf-8").splitlines()]
    assert any(event.get("event") == "response" or event.get("kind") == "response" for event in events)
