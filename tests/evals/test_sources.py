"""Official releases: fetched once, checked, kept whole; what goes wrong says how to get the file by hand."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import huggingface_hub
import pytest
from huggingface_hub.errors import EntryNotFoundError, GatedRepoError, RepositoryNotFoundError

from asymspec_agents.errors import ConfigurationError
from evals.sources import fetch, hub_file, releases_folder

BODY = b"problem,answer\n" * 10_000
DIGEST = hashlib.sha256(BODY).hexdigest()


class Release:
    """A server of files; `asked` are the targets of its requests, as they came."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.body = BODY
        release = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                release.asked.append(self.path)
                if "moved" in self.path:
                    self.send_response(302)
                    self.send_header("Location", "/there.csv")
                    self.end_headers()
                    return
                self.send_response(404 if "absent" in self.path else 200)
                extra = 100 if "torn" in self.path else 0
                self.send_header("Content-Length", str(len(release.body) + extra))
                self.end_headers()
                self.wfile.write(release.body)

            def log_message(self, *args: Any) -> None:
                return

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Release]:
    monkeypatch.setenv("ASYMSPEC_CACHE", str(tmp_path / "cache"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    found = Release()
    thread = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


def kept() -> list[Path]:
    return [path for path in releases_folder().rglob("*") if path.is_file()]


def test_a_file_is_fetched_once(release: Release) -> None:
    path = fetch(release.url + "/a/set.csv?x=1", sha256=DIGEST)
    assert (path.name, path.read_bytes()) == ("set.csv", BODY)
    assert fetch(release.url + "/a/set.csv?x=1", sha256=DIGEST.upper()) == path
    assert release.asked == ["/a/set.csv?x=1"]
    assert kept() == [path]


def test_files_of_one_name_are_kept_apart(release: Release) -> None:
    assert fetch(release.url + "/a/set.csv", sha256=None) != fetch(release.url + "/b/set.csv", sha256=None)


def test_a_redirect_is_followed(release: Release) -> None:
    assert fetch(release.url + "/moved.csv", sha256=DIGEST).read_bytes() == BODY


def test_other_bytes_are_refused_and_not_kept(release: Release) -> None:
    release.body = BODY[:-1]
    with pytest.raises(ConfigurationError, match=rf"instead of {DIGEST}.*--data PATH"):
        fetch(release.url + "/set.csv", sha256=DIGEST)
    assert kept() == []


def test_a_file_changed_in_the_cache_is_fetched_again(release: Release) -> None:
    path = fetch(release.url + "/set.csv", sha256=DIGEST)
    path.write_bytes(b"other")
    assert fetch(release.url + "/set.csv", sha256=DIGEST).read_bytes() == BODY
    assert len(release.asked) == 2


def test_without_a_checksum_the_cache_is_taken_as_it_is(release: Release) -> None:
    fetch(release.url + "/set.csv", sha256=None)
    release.body = b"newer"
    assert fetch(release.url + "/set.csv", sha256=None).read_bytes() == BODY


@pytest.mark.parametrize(
    ("target", "reason"), [("/absent.csv", "the server answered 404"), ("/torn.csv", "RemoteProtocolError")]
)
def test_failures_leave_nothing_and_say_what_to_do(release: Release, target: str, reason: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"{target} cannot be fetched: {reason}.*--data PATH"):
        fetch(release.url + target, sha256=None)
    assert kept() == []


def test_no_server(release: Release) -> None:
    with pytest.raises(ConfigurationError, match=r"ConnectError.*by hand from http://127.0.0.1:1/x\.csv"):
        fetch("http://127.0.0.1:1/x.csv", sha256=None)


def test_a_cache_that_cannot_be_written(
    release: Release, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ASYMSPEC_CACHE", str(tmp_path / "file"))
    with pytest.raises(ConfigurationError, match="cannot be kept in"):
        fetch(release.url + "/set.csv", sha256=None)


def test_the_environments_proxy_is_asked(release: Release, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", release.url)
    assert fetch("http://data.invalid/set.csv", sha256=DIGEST).read_bytes() == BODY
    assert release.asked == ["http://data.invalid/set.csv"]


def test_many_may_fetch_at_once(release: Release) -> None:
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: fetch(release.url + "/set.csv", sha256=DIGEST), range(8)))
    assert len(paths) == 1
    assert [path.read_bytes() for path in kept()] == [BODY]


def test_the_folder_is_the_users_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASYMSPEC_CACHE", raising=False)
    assert releases_folder().parts[-2:] == ("asymspec", "releases")


def test_a_hub_file_is_a_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def download(repo: str, filename: str, **options: Any) -> str:
        asked.append((repo, filename, options))
        return str(tmp_path / filename)

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    assert hub_file("owner/set", "data.zip", revision="abc") == tmp_path / "data.zip"
    assert asked == [("owner/set", "data.zip", {"repo_type": "dataset", "revision": "abc"})]


def test_offline_the_hub_says_so() -> None:
    with pytest.raises(
        ConfigurationError, match=r"data\.zip of owner/absent-set cannot be had: .*--data PATH"
    ):
        hub_file("owner/absent-set", "data.zip")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (GatedRepoError, "accept its terms on https://huggingface.co/datasets/owner/set"),
        (RepositoryNotFoundError, "the hub has no such dataset"),
        (EntryNotFoundError, "the dataset has no such file"),
        (OSError, "OSError: no space left"),
    ],
)
def test_what_the_hub_refuses_is_explained(
    monkeypatch: pytest.MonkeyPatch, kind: type[Exception], words: str
) -> None:
    def download(*_: Any, **__: Any) -> str:
        if issubclass(kind, OSError) and kind is not OSError:
            response = httpx.Response(403, request=httpx.Request("GET", "https://hub.invalid"))
            raise kind("refused", response=response)  # type: ignore[call-arg]
        raise kind("no space left")

    monkeypatch.setattr(huggingface_hub, "hf_hub_download", download)
    with pytest.raises(ConfigurationError, match=words) as caught:
        hub_file("owner/set", "set.parquet")
    assert "--data PATH" in str(caught.value)
