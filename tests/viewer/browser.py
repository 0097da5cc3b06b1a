"""A headless Chromium for the tests of the page; what is missing is a reason to skip that says so."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; skips where playwright or a Chromium is not installed."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"no Chromium is on the PATH ({', '.join(NAMES)})")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Page:
    """A page that was opened, and everything it complained about or asked the network for."""

    def __init__(self, browser: Any, url: str, **options: Any) -> None:
        self.context = browser.new_context(viewport={"width": 1400, "height": 900}, **options)
        self.tab = self.context.new_page()
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.tab.on("console", lambda message: self.problems.append(f"{message.type}: {message.text}"))
        self.tab.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        self.tab.on(
            "dialog", lambda dialog: (self.problems.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        self.tab.on("request", lambda request: self.requests.append(request.url))
        self.tab.goto(url)
        self.tab.wait_for_selector("html[data-ready]", state="attached")

    def text(self, selector: str) -> str:
        return str(self.tab.locator(selector).first.inner_text())

    def select(self, number: int) -> None:
        """Chooses the call with that number."""
        self.tab.locator(f"#row-{number}").click()

    def close(self) -> None:
        """Nothing was complained about, and nothing but the page itself was asked for."""
        problems, requests = self.problems, self.requests[1:]
        self.context.close()
        assert problems == []
        assert [url for url in requests if not url.endswith("/favicon.ico")] == []


@contextmanager
def opened(browser: Any, page: str, folder: Path, **options: Any) -> Iterator[Page]:
    """The page as a file in the browser; checked when it is closed."""
    path = folder / "page.html"
    path.write_text(page, "utf-8")
    shown = Page(browser, path.as_uri(), **options)
    yield shown
    shown.close()
