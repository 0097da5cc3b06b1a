"""Tool schemas found as content (a tool that lists tools): their signature view."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import MessageError
from ..messages import parse_tools
from ..tokens import TokenCounter
from .base import Rendition
from .json_content import JsonContent
from .json_tree import parse, quote
from .marker import left_out, short_reference
from .tool_docs import signature_text

__all__ = ["ToolCatalog"]


@dataclass(frozen=True, slots=True)
class ToolCatalog:
    """Shortens a JSON list of tools (or one tool) to a JSON list of one-line signatures.

    Content of another shape, and lists whose signatures alone exceed the target, are shortened as JSON.
    """

    fallback: JsonContent = field(default_factory=JsonContent)

    @property
    def configuration(self) -> str:
        return f"tool_docs/2(fallback={self.fallback.configuration})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """A rendition of at most `target_tokens`, or the marker alone where the target is smaller."""
        if counter.count(text) <= target_tokens:
            return Rendition(text, "tool_docs", "tool_docs")
        signatures = _signatures(text)
        if signatures:
            kept = sum(map(len, signatures))
            marker = left_out(max(len(text) - kept, 1), short_reference(text))
            shortened = "[" + ",\n".join(map(quote, [*signatures, marker])) + "]"
            if counter.count(shortened) <= target_tokens:
                return Rendition(shortened, "tool_docs", "tool_docs")
        return self.fallback.compress(text, query=query, target_tokens=target_tokens, counter=counter)


def _signatures(text: str) -> list[str]:
    try:
        parse(text)  # bounds the depth
        content: Any = json.loads(text)
        tools = content if isinstance(content, list) else [content]
        if not all(isinstance(tool, Mapping) for tool in tools):
            return []
        wrapped = [tool if "function" in tool or "type" in tool else {"function": tool} for tool in tools]
        return [signature_text(tool) for tool in parse_tools(wrapped)]
    except (ValueError, MessageError):
        return []
