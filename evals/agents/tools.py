"""The agents' tools: a search over passages, a web search and a page reader."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from smolagents import Tool

from .cassettes import Cassette, ToolFailedError, UnknownRequestError
from .passages import PassageIndex
from .web import Web

__all__ = ["NO_PASSAGE", "PassageSearchTool", "RecordedWeb", "VisitPageTool", "WebSearchTool"]

NO_PASSAGE = "No passage matches; try other words."


class PassageSearchTool(Tool):  # type: ignore[misc]  # smolagents has no types
    """The best passages of an index, in full."""

    name = "search"
    description = "Finds passages about people, places, works and events. Search for one thing at a time."
    inputs: ClassVar[dict[str, Any]] = {
        "query": {"type": "string", "description": "A few words: the name of what you want to know about"}
    }
    output_type = "string"

    def __init__(self, index: PassageIndex, num_passages: int = 3) -> None:
        super().__init__()
        self.index = index
        self.num_passages = num_passages

    def forward(self, query: str) -> str:
        return "\n\n".join(self.index.search(query, self.num_passages)) or NO_PASSAGE


class RecordedWeb:
    """One episode's way to the web, through a cassette; counts where its answers came from. Thread-safe.

    `web` is what may be asked live, None where nothing may.
    """

    def __init__(self, cassette: Cassette, web: Web | None) -> None:
        self._cassette = cassette
        self._web = web
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def ask(self, tool: str, arguments: Mapping[str, str]) -> str:
        """The answer to a tool's request. Raises ToolFailedError, which the agent is shown."""
        live = None if self._web is None else self._web.live(tool, arguments)
        try:
            played = self._cassette.play(tool, arguments, live)
        except UnknownRequestError:
            self._count("unknown")
            raise
        self._count(played.source)
        if played.is_error:
            self._count("failed")
            raise ToolFailedError(played.text)
        return played.text

    def counts(self) -> dict[str, int]:
        """How many were replayed, recorded, unknown to the cassette, and answered by an error (`failed`)."""
        with self._lock:
            return {name: self._counts[name] for name in ("replayed", "recorded", "unknown", "failed")}

    def _count(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1


class WebSearchTool(Tool):  # type: ignore[misc]
    """A web search."""

    name = "web_search"
    description = "Searches the web and returns titles, addresses and short extracts of pages."
    inputs: ClassVar[dict[str, Any]] = {"query": {"type": "string", "description": "What to search for"}}
    output_type = "string"

    def __init__(self, web: RecordedWeb) -> None:
        super().__init__()
        self.web = web

    def forward(self, query: str) -> str:
        return self.web.ask(self.name, {"query": query})


class VisitPageTool(Tool):  # type: ignore[misc]
    """A page or document of the web as text."""

    name = "visit_page"
    description = "Reads a web page, or a document such as a PDF, and returns its text."
    inputs: ClassVar[dict[str, Any]] = {"url": {"type": "string", "description": "The page's full address"}}
    output_type = "string"

    def __init__(self, web: RecordedWeb) -> None:
        super().__init__()
        self.web = web

    def forward(self, url: str) -> str:
        return self.web.ask(self.name, {"url": url})
