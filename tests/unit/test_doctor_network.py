"""`asymspec doctor URL` before any answer: wrong addresses, nothing there, no HTTP, proxies in between."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest

pytest.importorskip("starlette", reason="the extra server is not installed")
pytest.importorskip("uvicorn", reason="the extra server is not installed")

from starlette.responses import HTMLResponse

from asymspec_agents.diagnosis.finding import run_checks
from asymspec_agents.diagnosis.network_checks import NETWORK_CHECKS
from asymspec_agents.diagnosis.server_checks import SERVER_CHECKS
from asymspec_agents.diagnosis.target import Target, find_proxy
from tests.contract.servers import served_app
from tests.doctor import answering, doctor


@contextlib.contextmanager
def listening(answer: bytes | None) -> Iterator[int]:
    """A port where each connection gets these bytes and is closed; None: it is kept open in silence."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        held: list[socket.socket] = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    if answer is None:
                        held.append(connection)
                    else:
                        connection.sendall(answer)
                        connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join(10)
            for connection in held:
                connection.close()


def test_nothing_listening(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]
    code, found = doctor(capsys, f"http://127.0.0.1:{port}")
    assert code == 1
    assert found["network"]["found"] == f"nothing listens at 127.0.0.1:{port}"
    assert found["network"]["fix"].startswith(f"asymspec serve --port {port}")


def test_what_does_not_speak_http(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(b"SSH-2.0-x\r\n") as port:
        _, found = doctor(capsys, f"http://127.0.0.1:{port}")
        assert found["health"]["fix"] == f"if it speaks https: asymspec doctor https://127.0.0.1:{port}"
        _, found = doctor(capsys, f"https://127.0.0.1:{port}")
        assert found["network"]["fix"].endswith(f"asymspec doctor http://127.0.0.1:{port}")


def test_what_never_answers_costs_no_more_than_the_time_limit(capsys: pytest.CaptureFixture[str]) -> None:
    with listening(None) as port:
        _, found = doctor(capsys, f"http://127.0.0.1:{port}", "--timeout", "1")
    assert found["network"]["status"] == "ok"
    assert found["health"]["status"] == "FAIL"
    assert "--timeout 2" in found["health"]["fix"]


@pytest.mark.parametrize(
    ("url", "fix"),
    [
        ("", "asymspec doctor http://127.0.0.1:8000"),
        ("localhost:8000", "asymspec doctor http://localhost:8000"),
        ("ftp://localhost", "asymspec doctor http://127.0.0.1:8000"),
        ("http://", "asymspec doctor http://127.0.0.1:8000"),
        ("http://localhost:99999", "ports go from 1 to 65535; asymspec serve prints its own when ready"),
        ("http://localhost/v1/chat/completions", "asymspec doctor http://localhost"),
        ("https://localhost:8/v1/models", "asymspec doctor https://localhost:8"),
        ("http://someone:secret@localhost", "asymspec doctor http://127.0.0.1:8000"),
        ("someone:secret@localhost", "asymspec doctor http://***@localhost"),
        ("http://localhost?key=secret", "asymspec doctor http://127.0.0.1:8000"),
        ("\ud800", "asymspec doctor http://�"),
    ],
)
def test_a_wrong_address_is_found_before_anything_is_sent(
    url: str, fix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = doctor(capsys, url)
    assert (code, found["address"]["status"], found["address"]["fix"]) == (1, "FAIL", fix)
    assert list(found) == ["address", "not checked"]
    assert "secret" not in json.dumps(found)


def test_a_key_that_no_header_can_hold_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    _, found = doctor(capsys, "http://127.0.0.1:1", "--api-key", "half a\nsecret")
    assert found["address"]["fix"].startswith("give the key as it is")
    assert "secret" not in json.dumps(found)


@pytest.mark.filterwarnings("ignore:A test tried to use socket")
def test_an_unknown_name_is_found() -> None:
    target = Target("http://no-such-host.invalid", None, 5, proxy=lambda url: None)
    found = {finding.name: finding for finding in run_checks(NETWORK_CHECKS, target, 30)}
    assert found["network"].status == "FAIL"


@pytest.mark.parametrize(
    ("url", "name", "status"),
    [("http://127.0.0.1:1", "proxy", "warn"), ("http://example.invalid", "proxy", "info")],
)
def test_a_proxy_in_between_is_named(url: str, name: str, status: str) -> None:
    target = Target(url, None, 5, proxy=lambda url: "proxy:3128")
    finding = list(run_checks(NETWORK_CHECKS, target, 30))[-1]
    assert (finding.name, finding.status) == (name, status)
    assert "proxy:3128" in finding.found
    assert "export NO_PROXY=" in (finding.fix or finding.found)


def test_a_proxy_that_answers_in_the_servers_place_is_blamed() -> None:
    with served_app(answering({}, HTMLResponse("Bad gateway", 502))) as server:
        target = Target(server.url, None, 5, proxy=lambda url: "proxy:3128")
        try:
            found = {finding.name: finding for finding in run_checks(SERVER_CHECKS, target, 30)}
        finally:
            target.close()
    assert found["health"].found.startswith("by way of the proxy proxy:3128: ")
    assert "NO_PROXY=127.0.0.1" in str(found["health"].fix)


def test_proxies_are_read_as_the_client_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("HTTP_PROXY", "http://user:secret@proxy.corp:3128")
    assert find_proxy("http://server:8000") == "proxy.corp:3128"
    assert find_proxy("https://server:8000") is None
    monkeypatch.setenv("NO_PROXY", "server,127.0.0.1")
    assert find_proxy("http://server:8000") is None
    monkeypatch.setenv("ALL_PROXY", "socks.corp:1080")
    assert find_proxy("https://other") == "socks.corp:1080"
