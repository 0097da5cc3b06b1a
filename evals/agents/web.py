"""The web as two tools see it: a search and a page as text, live, within limits of size and time."""

from __future__ import annotations

import base64
import importlib
import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote, urlsplit

import httpx

from asymspec_agents.attachments import AttachmentPolicy, Attachments, RemotePolicy
from asymspec_agents.attachments.fetch import FetchError, Resolver, fetch, resolved
from asymspec_agents.attachments.kinds import kind_of
from asymspec_agents.attachments.plain_text import decode
from asymspec_agents.compress.html_text import page_text
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import parse_messages
from asymspec_agents.store import MemoryStore

from .cassettes import ToolFailedError

__all__ = ["DdgsSearch", "JsonSearch", "PageReader", "SearchEngine", "Web", "web_policy"]

NUM_RESULTS = 8
MAX_ANSWER_BYTES = 2 * 1024 * 1024  # of a search
MAX_SNIPPET_CHARS = 500
_TITLES = ("title", "name")
_URLS = ("url", "link", "href")
_TEXTS = ("content", "snippet", "description", "body", "text")


class SearchEngine(Protocol):
    """Finds pages for a query."""

    def search(self, query: str) -> str:
        """The results as the agent reads them. Raises ToolFailedError."""


@dataclass(frozen=True, slots=True)
class JsonSearch:
    """A search service that answers GET with JSON, such as SearXNG at `/search?format=json&q={query}`.

    `url` has `{query}` where the query goes. Of the answer the first list of objects with an address counts,
    under whatever names services use. `headers` may hold a key; they are shown and recorded nowhere. The
    address is the user's own and may be a local one. Raises ConfigurationError for a URL without a place for
    the query.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_s: float = 20.0

    def __post_init__(self) -> None:
        if "{query}" not in self.url or urlsplit(self.url).scheme not in ("http", "https"):
            raise ConfigurationError(f"search={self.url!r} must be an http(s) URL with {{query}} in it")

    def search(self, query: str) -> str:
        deadline_s = time.monotonic() + self.timeout_s
        data = bytearray()
        try:
            with (
                httpx.Client(trust_env=False, timeout=self.timeout_s, headers=dict(self.headers)) as client,
                client.stream("GET", self.url.replace("{query}", quote(query, safe=""))) as answer,
            ):
                if answer.status_code != 200:
                    raise ToolFailedError(f"the search answered with status {answer.status_code}")
                for piece in answer.iter_bytes():
                    data += piece
                    if len(data) > MAX_ANSWER_BYTES or time.monotonic() > deadline_s:
                        raise ToolFailedError("the search answered with too much or too slowly")
            found = json.loads(bytes(data))
        except (httpx.HTTPError, UnicodeError, ValueError) as error:
            raise ToolFailedError(f"the search failed ({type(error).__name__})") from None
        return _listed(next(_result_lists(found), []))


@dataclass(frozen=True, slots=True)
class DdgsSearch:
    """The search of the package `ddgs`, which asks public engines without a key; no extra brings it."""

    timeout_s: int = 20

    def __post_init__(self) -> None:
        _ddgs()

    def search(self, query: str) -> str:
        try:
            found = _ddgs().DDGS(timeout=self.timeout_s).text(query, max_results=NUM_RESULTS)
        except Exception as error:  # of whichever engine it asks
            raise ToolFailedError(f"the search failed ({type(error).__name__})") from None
        return _listed(list(found))


def _ddgs() -> Any:
    try:
        return importlib.import_module("ddgs")
    except ImportError as error:
        raise ConfigurationError(
            "search='ddgs': the package is not installed; run `pip install ddgs`, or give the URL of a JSON "
            "search with {query} in it"
        ) from error


def _result_lists(value: Any) -> Iterator[list[dict[str, Any]]]:
    """The lists of objects with an address in a JSON value, outermost first."""
    level = [value]
    while level:
        for item in level:
            if isinstance(item, list):
                results = [entry for entry in item if isinstance(entry, dict) and _first(entry, _URLS)]
                if results:
                    yield results
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
        ]


def _first(entry: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((entry[name] for name in names if isinstance(entry.get(name), str) and entry[name]), "")


def _listed(results: list[Any]) -> str:
    lines = []
    for number, entry in enumerate(results[:NUM_RESULTS], start=1):
        text = " ".join(_first(entry, _TEXTS).split())[:MAX_SNIPPET_CHARS]
        title = " ".join(_first(entry, _TITLES).split())[:MAX_SNIPPET_CHARS]
        lines.append("\n   ".join(filter(None, (f"{number}. {title}", _first(entry, _URLS), text))))
    return "\n".join(lines) or "No results."


def web_policy() -> RemotePolicy:
    """Which pages may be read: public addresses on the usual ports."""
    return RemotePolicy(schemes=("https", "http"), ports=(443, 80), timeout_s=30.0)


class PageReader:
    """Reads pages and documents of the public internet as text; thread-safe.

    `max_chars`: of a text, the beginning. `resolver` and `policy` decide what counts as public.
    """

    def __init__(
        self,
        policy: RemotePolicy | None = None,
        *,
        max_bytes: int = 20 * 1024 * 1024,
        max_chars: int = 100_000,
        resolver: Resolver = resolved,
    ) -> None:
        self._policy = policy if policy is not None else web_policy()
        self._max_bytes = max_bytes
        self._max_chars = max_chars
        self._resolver = resolver
        self._attachments = Attachments(AttachmentPolicy(max_file_bytes=max_bytes))

    def read(self, url: str) -> str:
        """The page's main text, or a document's text under a line that says what it is.

        Raises ToolFailedError.
        """
        try:
            data = fetch(url, self._policy, self._max_bytes, self._resolver)
        except FetchError as error:
            raise ToolFailedError(f"the page was not read: {error}") from None
        text = page_text(decode(data)) if kind_of(data).name == "HTML" else self._document(data)
        if not text.strip():
            raise ToolFailedError("the page has no text")
        if len(text) > self._max_chars:
            text = f"{text[: self._max_chars]}\n[… the rest left out: over {self._max_chars:,} characters …]"
        return text

    def _document(self, data: bytes) -> str:
        if not data:
            return ""
        encoded = f"data:application/octet-stream;base64,{base64.b64encode(data).decode('ascii')}"
        message = {"role": "user", "content": [{"type": "file", "file": {"file_data": encoded}}]}
        read = self._attachments.read(parse_messages([message]), MemoryStore())
        return "\n".join(text for made in read.full for text in made.texts())


@dataclass(frozen=True, slots=True)
class Web:
    """What the tools ask when they may: an engine (None: only pages can be read) and a reader of pages."""

    engine: SearchEngine | None
    pages: PageReader

    def live(self, tool: str, arguments: Mapping[str, str]) -> Callable[[], str]:
        """The question to ask where a cassette has no answer."""
        if tool == "visit_page":
            return lambda: self.pages.read(arguments["url"])
        return lambda: self._search(arguments["query"])

    def _search(self, query: str) -> str:
        if self.engine is None:
            raise ToolFailedError("there is no web search in this run")
        if not query.strip():
            raise ToolFailedError("the query is empty")
        return self.engine.search(query)
