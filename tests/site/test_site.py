"""The documentation site: it builds without a warning, no link is dead, nothing is loaded from elsewhere."""

from __future__ import annotations

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

import pytest

from asymspec_agents.trace import break_even
from tests.architecture import ROOT
from tests.viewer.browser import chromium

KNOWN_ELSEWHERE = ("https://arxiv.org/abs/",)
"""Where links may lead that no test follows."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. A warning of any kind ends the build."""
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    pytest.importorskip("mkdocstrings_handlers.python", reason="mkdocstrings is not installed")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


class _Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that a link may name."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.ids: set[str] = set()
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.ids.add(given["id"])
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in ("img", "script", "iframe", "source", "video") and "src" in given:
            self.loads.append(given["src"])
        if tag == "link" and given.get("rel") not in ("prev", "next", "canonical"):
            self.loads.append(given["href"])


def _pages(site: Path) -> dict[Path, _Page]:
    return {path: _Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def test_every_link_leads_somewhere(site: Path) -> None:
    pages = _pages(site)
    assert len(pages) > 15
    dead = []
    for path, page in pages.items():
        for link in (*page.links, *page.loads):
            if urlsplit(link).scheme:
                continue
            place, fragment = urldefrag(link)
            target = (path.parent / unquote(place)).resolve() if place else path
            target = target / "index.html" if target.is_dir() else target
            is_there = target.is_file() and (
                not fragment or target not in pages or fragment in pages[target].ids
            )
            if not is_there and fragment != "__skip":
                dead.append(f"{path.relative_to(site)}: {link}")
    assert dead == []


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    for path, page in _pages(site).items():
        assert [link for link in page.loads if urlsplit(link).netloc] == [], path
        for link in page.links:
            assert not urlsplit(link).netloc or link.startswith(KNOWN_ELSEWHERE), (path, link)
    for sheet in site.rglob("*.css"):
        assert not re.search(r"(?:url\(|@import)\s*['\"]?(?:https?:)?//", sheet.read_text("utf-8")), sheet


def test_every_public_name_has_its_entry(site: Path) -> None:
    import asymspec_agents

    ids = set().union(*(page.ids for path, page in _pages(site).items() if path.parent.name == "reference"))
    names = {identity.rpartition(".")[2] for identity in ids}
    assert set(asymspec_agents.__all__) - {"__version__"} <= names


def test_no_page_is_left_out(site: Path) -> None:
    sources = {path.relative_to(ROOT / "docs").with_suffix("") for path in (ROOT / "docs").rglob("*.md")}
    assert sources == {path.relative_to(site).with_suffix("") for path in _pages(site)}


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site behind a server of this machine: from a disk, browsers let a page search nothing."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def tab(address: str) -> Iterator[Any]:
    """A tab of a browser; at the end, nothing was complained about and no other machine was asked."""
    with chromium() as browser:
        page = browser.new_page()
        problems: list[str] = []
        page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: problems.append(request.url) if not request.url.startswith(address) else None,
        )
        yield page
        assert problems == []


def _calculated(tab: Any, **inputs: object) -> str:
    for name, value in inputs.items():
        tab.locator(f"#calculator [name={name}]").fill(str(value))
    return str(tab.locator("#calculator output").inner_text())


def _emitted_per_block(chance: float, drafted: int) -> tuple[float, float]:
    """Acceptance rate and tokens of a block whose judged drafts are each accepted with that chance."""
    accepted = sum(chance**place for place in range(1, drafted + 1))
    return accepted / drafted, accepted + 1 - chance**drafted


def test_the_calculator_follows_the_cost_model(tab: Any, address: str) -> None:
    tab.goto(f"{address}when-to-use.html")
    verifier, drafter, full, compressed, answer, k, chance = 8, 2, 10_000, 2_130, 500, 3, 0.9
    acceptance, emitted = _emitted_per_block(chance, k + 1)
    text = _calculated(
        tab,
        verifier=verifier,
        drafter=drafter,
        full=full,
        compressed=compressed,
        full_cached=50,
        compressed_cached=25,
        answer=answer,
        k=k,
        acceptance=100 * acceptance,
    )
    prefill = verifier * compressed * 0.75 + drafter * (full * 0.5 + compressed * 0.75)
    decode = answer / emitted * (k + 1) * (verifier + 2 * drafter)
    ceiling_prefill, ceiling_decode = verifier * full * 0.5, verifier * answer
    assert f"prefill {prefill / ceiling_prefill:.2f}×" in text
    assert f"decoding {decode / ceiling_decode:.2f}×" in text
    assert f"whole call {(prefill + decode) / (ceiling_prefill + ceiling_decode):.2f}×" in text
    assert f"emits {emitted:.2f} tokens" in text
    assert f"below {break_even(verifier_params=verifier, drafter_params=drafter):.2f}." in text


@pytest.mark.parametrize(
    ("inputs", "wanted"),
    [
        ({"verifier": 4, "drafter": 4}, "saves nothing"),
        ({"verifier": 0}, "Verifier, billions of parameters: "),
        ({"k": 9}, "Drafts of a block, K (1 to 8): "),
        ({"full": ""}, "Full view, tokens: "),
        ({"full_cached": 100}, "prefill undefined"),
        ({"full_cached": 100, "answer": 0}, "the whole call undefined"),
        ({"acceptance": 0}, "emits 1.00 tokens"),
        ({"acceptance": 100}, "emits 3.00 tokens"),
    ],
)
def test_the_calculator_bears_odd_input(
    tab: Any, address: str, inputs: dict[str, object], wanted: str
) -> None:
    tab.goto(f"{address}when-to-use.html")
    assert wanted in _calculated(tab, **inputs)


def test_every_input_of_the_calculator_has_a_label(tab: Any, address: str) -> None:
    tab.goto(f"{address}when-to-use.html")
    for box in tab.locator("#calculator input").all():
        assert box.evaluate("input => input.labels.length") == 1


@pytest.mark.parametrize("width", [400, 1300])
def test_no_page_is_wider_than_the_screen(tab: Any, address: str, site: Path, width: int) -> None:
    tab.set_viewport_size({"width": width, "height": 900})
    for path in _pages(site):
        tab.goto(address + path.relative_to(site).as_posix())
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), path


def test_the_search_finds_a_page(tab: Any, address: str) -> None:
    tab.set_viewport_size({"width": 1300, "height": 900})
    tab.goto(f"{address}index.html")
    tab.locator("input.md-search__input").click()  # the index is fetched at the first use
    tab.locator("input.md-search__input").press_sequentially("keep_last", delay=50)
    tab.wait_for_selector(".md-search-result__item a")
    assert "choosing.html" in " ".join(
        link.get_attribute("href") for link in tab.locator(".md-search-result__item a").all()
    )
