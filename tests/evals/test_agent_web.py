"""The web of agents: a search and pages of a site on this machine, recorded and replayed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from asymspec_agents.attachments import RemotePolicy
from asymspec_agents.errors import ConfigurationError
from evals.agents.cassettes import Cassette, ToolFailedError, UnknownRequestError
from evals.agents.episode import run_episode
from evals.agents.settings import AgentSettings
from evals.agents.tools import RecordedWeb, VisitPageTool, WebSearchTool
from evals.agents.web import JsonSearch, PageReader, Web, web_policy
from evals.agents.web_options import WebOptions
from tests.evals.episodes import call, scripted, views

KEY = "key-of-nobody"
ARTICLE = " ".join(f"In {1700 + at} the mill at Corrin ground {at * 3} sacks of barley." for at in range(80))
PAGE = f"<html><head><title>Corrin</title><script>track()</script></head><body><nav>Home</nav><p>{ARTICLE}</p></body></html>"  # noqa: E501
RESULTS = {
    "query": "x",
    "suggestions": ["y"],
    "results": [
        {"title": "Corrin mill", "url": "https://corrin.example/mill", "content": "A  mill\nat Corrin."},
        {"name": "Barley", "link": "https://barley.example/", "snippet": None},
        {"title": "no address"},
    ],
}


class Handler(BaseHTTPRequestHandler):
    asked: list[str]
    keys: list[str | None]
    answers: dict[str, tuple[int, bytes]]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        self.keys.append(self.headers.get("X-Key"))
        status, data = self.answers.get(urlsplit(self.path).path, (404, b"nothing"))
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def site() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.asked, Handler.keys = [], []
    Handler.answers = {
        "/search": (200, json.dumps(RESULTS).encode()),
        "/page": (200, PAGE.encode()),
        "/latin": (200, "Straße in Köln".encode("latin-1")),
        "/empty": (200, b""),
        "/long": (200, b"word " * 10_000),
        "/broken": (200, b'{"results": ['),
        "/down": (503, b"busy"),
        "/image": (200, b"\x89PNG\r\n\x1a\n" + bytes(40)),
    }
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def reader(site: str, **options: Any) -> PageReader:
    port = urlsplit(site).port or 0
    return PageReader(RemotePolicy(schemes=("http",), ports=(port,), networks=("127.0.0.0/8",)), **options)


def test_pages_are_read_as_their_text(site: str) -> None:
    text = reader(site).read(f"{site}/page")
    assert ARTICLE in " ".join(text.split())
    assert "track()" not in text
    assert "Home" not in text


def test_other_encodings_and_long_texts_are_read(site: str) -> None:
    assert "Straße in Köln" in reader(site).read(f"{site}/latin")
    long = reader(site, max_chars=1_000).read(f"{site}/long")
    assert len(long) < 1_100
    assert "the rest left out: over 1,000 characters" in long


@pytest.mark.parametrize(
    ("path", "message"),
    [("/empty", "the page has no text"), ("/missing", "status 404"), ("/down", "status 503")],
)
def test_pages_that_cannot_be_read_are_errors_for_the_agent(site: str, path: str, message: str) -> None:
    with pytest.raises(ToolFailedError, match=message):
        reader(site).read(f"{site}{path}")


def test_large_pages_are_not_read(site: str) -> None:
    with pytest.raises(ToolFailedError, match="larger than 100 bytes"):
        reader(site, max_bytes=100).read(f"{site}/page")


def test_what_is_no_text_is_told(site: str) -> None:
    assert "image" in reader(site).read(f"{site}/image")


@pytest.mark.parametrize("url", ["{site}/page", "http://localhost/page", "file:///etc/passwd", "no address"])
def test_only_public_addresses_are_read(site: str, url: str) -> None:
    with pytest.raises(ToolFailedError, match="the page was not read"):
        PageReader(web_policy()).read(url.format(site=site))
    assert Handler.asked == []


def test_a_search_lists_titles_addresses_and_texts(site: str) -> None:
    engine = JsonSearch(f"{site}/search?format=json&q={{query}}", {"X-Key": KEY})
    assert engine.search("mill & barley?") == (
        "1. Corrin mill\n   https://corrin.example/mill\n   A mill at Corrin.\n"
        "2. Barley\n   https://barley.example/"
    )
    assert parse_qs(urlsplit(Handler.asked[0]).query)["q"] == ["mill & barley?"]
    assert Handler.keys == [KEY]
    assert KEY not in repr(engine)


def test_results_are_found_wherever_they_stand(site: str) -> None:
    nested = {"web": {"results": [{"title": "T", "url": "https://t.example/"}]}, "news": []}
    Handler.answers["/search"] = (200, json.dumps(nested).encode())
    assert "https://t.example/" in JsonSearch(f"{site}/search?q={{query}}").search("t")
    Handler.answers["/search"] = (200, b'{"results": []}')
    assert JsonSearch(f"{site}/search?q={{query}}").search("t") == "No results."


@pytest.mark.parametrize("path", ["/broken", "/down", "/missing", "/latin"])
def test_a_failing_search_is_an_error_for_the_agent(site: str, path: str) -> None:
    with pytest.raises(ToolFailedError, match="the search") as raised:
        JsonSearch(f"{site}{path}?q={{query}}", {"X-Key": KEY}).search("x")
    assert KEY not in str(raised.value)
    assert site not in str(raised.value)


def test_an_unreachable_search_is_an_error_for_the_agent() -> None:
    with pytest.raises(ToolFailedError, match="the search failed"):
        JsonSearch("http://127.0.0.1:9/?q={query}", timeout_s=2.0).search("x")


def _web(site: str) -> Web:
    return Web(JsonSearch(f"{site}/search?q={{query}}", {"X-Key": KEY}), reader(site))


def test_an_episode_repeats_without_the_web(site: str, tmp_path: Path) -> None:
    path = tmp_path / "web.jsonl"

    def episode(cassette: Cassette, web: Web | None) -> tuple[Any, list[Any]]:
        recorded = RecordedWeb(cassette, web)
        asker, backend = scripted(
            call("web_search", query="Corrin mill"),
            call("visit_page", url=f"{site}/page"),
            call("visit_page", url=f"{site}/missing"),
            call("final_answer", answer="barley"),
        )
        output = run_episode(
            "What did the mill grind?",
            [WebSearchTool(recorded), VisitPageTool(recorded)],
            asker,
            AgentSettings(max_steps=4),
            counts=recorded.counts,
        )
        return output, [views(request)[0] for request in backend.requests]

    live, read_live = episode(Cassette(path, "record-missing"), _web(site))
    asked = list(Handler.asked)
    replayed, read_again = episode(Cassette(path), None)
    assert Handler.asked == asked
    assert read_again == read_live
    assert ARTICLE in " ".join(read_again[2].split())
    assert "status 404" in read_again[3]
    assert replayed.trajectory[:-1] == live.trajectory[:-1]
    counts = [output.trajectory[-1]["tool_answers"] for output in (live, replayed)]
    assert counts[0] == {"replayed": 0, "recorded": 3, "unknown": 0, "failed": 1}
    assert counts[1] == {"replayed": 3, "recorded": 0, "unknown": 0, "failed": 1}
    assert KEY not in path.read_text()


def test_an_unknown_request_is_told_to_the_agent_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "web.jsonl"
    path.touch()
    web = RecordedWeb(Cassette(path), None)
    asker, backend = scripted(call("web_search", query="new"), call("final_answer", answer="x"))
    output = run_episode("?", [WebSearchTool(web)], asker, AgentSettings(max_steps=2), counts=web.counts)
    assert output.trajectory[-1]["tool_answers"]["unknown"] == 1
    assert "no recorded answer" in output.trajectory[0]["error"]["message"]
    assert "no recorded answer" in views(backend.requests[1])[0]
    with pytest.raises(UnknownRequestError):
        web.ask("web_search", {"query": "new"})


def test_an_empty_query_or_no_engine_is_an_error(site: str, tmp_path: Path) -> None:
    for web in (_web(site), Web(None, reader(site))):
        recorded = RecordedWeb(Cassette(tmp_path / f"{id(web)}.jsonl", "record-missing"), web)
        with pytest.raises(ToolFailedError, match=r"the query is empty|no web search"):
            recorded.ask("web_search", {"query": " "})
    assert Handler.asked == []


def options(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "web.jsonl").touch()
    (tmp_path / "key").write_text(f"{KEY}\n")
    return {
        "cassette": str(tmp_path / "web.jsonl"),
        "search": "http://127.0.0.1/?q={query}",
        "search_header": "X-Key",
        "search_key_file": str(tmp_path / "key"),
    }


def test_options_replay_unless_the_run_may_go_online(tmp_path: Path) -> None:
    given = options(tmp_path)
    replay = WebOptions.of("s", given)
    assert (replay.cassette.mode, replay.live) == ("replay", None)
    online = WebOptions.of("s", {**given, "online": "true"})
    assert online.cassette.mode == "record-missing"
    assert online.live is not None
    assert isinstance(online.live.engine, JsonSearch)
    assert online.live.engine.headers == {"X-Key": KEY}
    assert WebOptions.of("s", {**given, "online": "true", "mode": "record"}).cassette.mode == "record"
    assert WebOptions.of("s", {**given, "online": "true", "mode": "replay"}).live is None
    assert KEY not in repr(online)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cassette": ""}, "suite s needs a cassette of the web"),
        ({"cassette": "nowhere.jsonl"}, "is no file; record one first"),
        ({"mode": "record"}, "say so by --option online=true"),
        ({"mode": "rewind"}, "mode='rewind' must be one of"),
        ({"online": "yes"}, "online='yes' must be true or false"),
        ({"online": "true", "search": "https://a.example/"}, "with {query} in it"),
        ({"online": "true", "search": "ftp://a.example/{query}"}, "with {query} in it"),
        ({"online": "true", "search_key_file": "/no/key"}, "search_key_file='/no/key' cannot be read"),
        ({"tape": "x"}, "option 'tape' is unknown to suite s; its options: cassette, mode"),
    ],
)  # fmt: skip
def test_options_are_checked(tmp_path: Path, change: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        WebOptions.of("s", {**options(tmp_path), **change})
    assert message in str(raised.value)


def test_ddgs_is_asked_for_its_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: Callable[..., list[dict[str, str]]]

    def found(self: Any, query: str, max_results: int) -> list[dict[str, str]]:
        if query == "fail":
            raise RuntimeError("rate limit of 1.2.3.4")
        return [{"title": f"about {query}", "href": "https://a.example/", "body": "text"}]

    class Module:
        DDGS = type("DDGS", (), {"__init__": lambda self, timeout: None, "text": found})

    monkeypatch.setitem(__import__("sys").modules, "ddgs", Module)
    given = {**options(tmp_path), "online": "true", "search": "ddgs"}
    live = WebOptions.of("s", given).live
    assert live is not None
    assert live.live("web_search", {"query": "x"})() == "1. about x\n   https://a.example/\n   text"
    with pytest.raises(ToolFailedError, match=r"^the search failed \(RuntimeError\)$"):
        live.live("web_search", {"query": "fail"})()


def test_without_ddgs_the_error_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ddgs", None)
    with pytest.raises(ConfigurationError, match="pip install ddgs"):
        WebOptions.of("s", {**options(tmp_path), "online": "true", "search": "ddgs"})
