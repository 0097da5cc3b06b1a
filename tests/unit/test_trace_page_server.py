"""The page's server answers this machine's user under a secret address, and nobody else."""

from __future__ import annotations

import http.client
import socket
import struct
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from asymspec_agents.trace.viewer import PageServer


class Pages:
    """Pages numbered as they are made."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> str:
        self.number += 1
        if self.number == 3:
            raise OSError(2, "No such file")
        return f"<p>page {self.number} ✓"


@pytest.fixture
def server() -> Iterator[PageServer]:
    with PageServer(Pages()) as started:
        yield started


def ask(
    server: PageServer, path: str | None = None, host: str | None = None, method: str = "GET"
) -> tuple[int, str, dict[str, str]]:
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection("127.0.0.1", parts.port or 0, timeout=10)
    connection.request(method, parts.path if path is None else path, headers={"Host": host or parts.netloc})
    response = connection.getresponse()
    body, headers = response.read().decode(), {name.lower(): value for name, value in response.getheaders()}
    connection.close()
    return response.status, body, headers


def test_each_request_gets_a_new_page(server: PageServer) -> None:
    status, body, headers = ask(server)
    assert (status, body) == (200, "<p>page 1 ✓")
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert ask(server)[1] == "<p>page 2 ✓"
    assert ask(server)[0] == 500
    assert ask(server, method="HEAD")[:2] == (200, "")


def test_another_host_another_path_and_another_method_are_refused(server: PageServer) -> None:
    port = urlsplit(server.url).port
    for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{(port or 0) + 1}"):
        assert ask(server, host=host)[0] == 403
    assert ask(server, host=f"localhost:{port}")[0] == 200
    for path in ("/", "/x/", urlsplit(server.url).path + "x", "/..%2f"):
        assert ask(server, path)[0] == 404
    assert ask(server, method="POST")[0] == 501
    assert ask(server, "/favicon.ico")[0] == 204


def test_addresses_are_secret_and_differ() -> None:
    with PageServer(Pages()) as one, PageServer(Pages()) as other:
        paths = {urlsplit(server.url).path for server in (one, other)}
    assert len(paths) == 2
    assert all(len(path) > 20 for path in paths)


def test_two_names_of_the_host_are_refused(server: PageServer) -> None:
    parts = urlsplit(server.url)
    request = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nHost: evil.example\r\n\r\n"
    with socket.create_connection(("127.0.0.1", parts.port or 0), timeout=10) as client:
        client.sendall(request.encode())
        assert client.recv(12) == b"HTTP/1.0 403"


def test_a_browser_that_goes_away_leaves_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    made = threading.Event()

    def make_page() -> str:
        made.set()
        return "x" * 50_000_000  # more than the connection's buffers hold

    with PageServer(make_page) as server:
        parts = urlsplit(server.url)
        client = socket.create_connection(("127.0.0.1", parts.port or 0), timeout=10)
        client.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        assert made.wait(10)
        assert client.recv(12) == b"HTTP/1.0 200"
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        client.close()
        workers = [thread for thread in threading.enumerate() if "process_request" in thread.name]
        for worker in workers:
            worker.join(10)
            assert not worker.is_alive()
    assert capsys.readouterr().err == ""
