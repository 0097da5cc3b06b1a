"""URLs: nothing that is not public is ever reached, and what is fetched is bounded."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from asymspec_agents.attachments import AttachmentPolicy, Attachments, RemotePolicy
from asymspec_agents.attachments.fetch import FetchError, fetch, is_reachable
from asymspec_agents.attachments.reading import AttachmentReader
from tests.attachments.files import image, shown

PUBLIC = RemotePolicy()


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.8.8.8",
        "0.0.0.0",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1%eth0",
        "fc00::1",
        "fd00:ec2::254",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "2002:7f00:1::",
        "2001:db8::1",
        "no address",
        "",
    ],
)
def test_what_is_not_public_is_not_reached(address: str) -> None:
    assert not is_reachable(address, PUBLIC)

    def resolver(host: str, port: int) -> Sequence[str]:
        return ["93.184.215.14", address]  # one bad address is enough

    with pytest.raises(FetchError, match="its host is not on the public internet"):
        fetch("https://example.org/a.png", PUBLIC, 1_000, resolver)


def test_public_addresses_and_named_networks_are_reached() -> None:
    assert is_reachable("93.184.215.14", PUBLIC)
    assert is_reachable("2606:2800:21f:cb07:6820:80da:af6b:8b2c", PUBLIC)
    assert is_reachable("10.1.2.3", RemotePolicy(networks=("10.1.0.0/16",)))
    assert not is_reachable("10.2.2.3", RemotePolicy(networks=("10.1.0.0/16",)))


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/a.png",
        "file:///etc/passwd",
        "ftp://example.org/a",
        "gopher://example.org/",
        "//example.org/a.png",
        "example.org/a.png",
        "https:///a.png",
        "https://user:secret@example.org/",
        "https://example.org:22/",
        "https://example.org:99999/",
        "https://[::1/",
        "https://example.org/a b",
        "https://example.org\\@127.0.0.1/",
        "https://example.org/\n",
        "https://" + "a" * 5_000,
        "iVBORw0KGgo=",
    ],
)
def test_other_urls_are_refused_before_anything_is_resolved(url: str) -> None:
    def resolver(host: str, port: int) -> Sequence[str]:
        raise AssertionError("resolved")

    with pytest.raises(FetchError) as raised:
        fetch(url, PUBLIC, 1_000, resolver)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("host", ["0x7f.1", "2130706433", "localhost", "127.1"])
def test_other_ways_to_write_loopback_are_refused(host: str) -> None:
    with pytest.raises(FetchError, match="its host is"):
        fetch(f"https://{host}/", PUBLIC, 1_000)


class Handler(BaseHTTPRequestHandler):
    answers: dict[str, Callable[[Handler], None]]
    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.asked.append((self.headers["Host"], self.path))
        self.answers[self.path](self)

    def send(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in {"Content-Length": str(len(data)), **named}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


def _slow(handler: Handler) -> None:
    handler.send(b"", Content_Length="1000")
    with contextlib.suppress(OSError):  # until the other side has had enough
        for _ in range(30):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.1)


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    made = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port = made.server_port
    Handler.asked = []
    Handler.answers = {
        "/image": lambda handler: handler.send(image()),
        "/empty": lambda handler: handler.send(b""),
        "/gone": lambda handler: handler.send(b"no", 404),
        "/large": lambda handler: handler.send(b"x" * 200_001),
        "/endless": lambda handler: handler.send(b"x" * 300_000, Content_Length="garbage"),
        "/packed": lambda handler: handler.send(b"x", Content_Encoding="gzip"),
        "/there": lambda handler: handler.send(b"", 302, Location="/image"),
        "/loop": lambda handler: handler.send(b"", 302, Location="/loop"),
        "/inside": lambda handler: handler.send(b"", 302, Location=f"http://inside.example:{port}/image"),
        "/file": lambda handler: handler.send(b"", 302, Location="file:///etc/passwd"),
        "/slow": _slow,
    }
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


def _policy(server: ThreadingHTTPServer) -> RemotePolicy:
    """What no default allows: plain HTTP to this machine."""
    return RemotePolicy(
        schemes=("http",),
        ports=(server.server_port,),
        networks=("127.0.0.1/32",),
        timeout_s=1.5,
        max_redirects=2,
    )


def _resolver(host: str, port: int) -> Sequence[str]:
    return {"files.example": ["127.0.0.1"], "inside.example": ["127.0.0.2"]}[host]


def test_a_file_is_fetched_from_the_checked_address_under_its_own_name(server: ThreadingHTTPServer) -> None:
    url = f"http://files.example:{server.server_port}/there"
    assert fetch(url, _policy(server), 200_000, _resolver) == image()
    name = f"files.example:{server.server_port}"
    assert Handler.asked == [(name, "/there"), (name, "/image")]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/gone", "its host answered with status 404"),
        ("/large", "it is larger than 200,000 bytes"),
        ("/endless", "it is larger than 200,000 bytes|did not answer properly"),
        ("/packed", "did not answer properly"),
        ("/loop", "redirected too often"),
        ("/inside", "not on the public internet"),
        ("/file", "only http URLs"),
        ("/slow", "took too long"),
    ],
)
def test_what_is_not_fetched_says_why(server: ThreadingHTTPServer, path: str, why: str) -> None:
    with pytest.raises(FetchError, match=why):
        fetch(f"http://files.example:{server.server_port}{path}", _policy(server), 200_000, _resolver)


def test_each_hop_is_resolved_once(server: ThreadingHTTPServer) -> None:
    answers = iter([["127.0.0.1"], ["127.0.0.1"], ["169.254.169.254"]])
    fetch(
        f"http://files.example:{server.server_port}/there",
        _policy(server),
        200_000,
        lambda host, port: next(answers),
    )
    assert next(answers) == ["169.254.169.254"]


def test_a_fetched_image_is_told_once_and_an_unfetched_one_by_its_host_alone(
    server: ThreadingHTTPServer,
) -> None:
    attachments = Attachments(AttachmentPolicy(remote=_policy(server)))
    attachments._reader = AttachmentReader(attachments.policy, None, None, _resolver)

    def seen(path: str) -> str:
        url = f"http://files.example:{server.server_port}{path}"
        return shown(attachments, {"type": "image_url", "image_url": {"url": url}})

    assert seen("/image").startswith('[image "at files.example": PNG, 40×30, ')
    assert seen("/image") == seen("/image")
    assert len(Handler.asked) == 1
    assert seen("/empty") == '[image "at files.example" not read: it is empty]'
    assert seen("/gone") == '[image "at files.example" not read: its host answered with status 404]'
    attachments.close()
