"""What a compressor is: a pure function from a content, a query and a target size to a rendition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from ..tokens import TokenCounter

__all__ = ["Compressor", "ContentKind", "KindCompressor", "Rendition"]

ContentKind = Literal[
    "text", "markdown", "html", "json", "json_lines", "code", "log", "table", "diff", "tool_docs"
]


@dataclass(frozen=True, slots=True)
class Rendition:
    """A short form of one content. `degraded`: made by the fallback after a compressor failed."""

    text: str
    compressor: str
    kind: ContentKind
    degraded: bool = False


class Compressor(Protocol):
    """Makes renditions.

    Invariants: the result depends on the arguments and `configuration` only (no clock, no randomness, no
    state), so equal inputs give equal renditions in every process.
    """

    @property
    def configuration(self) -> str:
        """Name, version and parameters as a stable string: part of every rendition's cache key."""

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of `text` of at most about `target_tokens`, keeping what bears on `query`."""


@runtime_checkable
class KindCompressor(Compressor, Protocol):
    """A compressor that can be told what a content is."""

    def compress_as(
        self, kind: ContentKind, text: str, *, query: str, target_tokens: int, counter: TokenCounter
    ) -> Rendition:
        """A rendition of `text`, taken for a content of that kind."""
