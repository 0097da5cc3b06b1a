"""Texts cut to a number of tokens: their middle left out, or their end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asymspec_agents.compress.base import Rendition
from asymspec_agents.compress.cuts import longest_fit
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.tokens import TokenCounter, clean_text

__all__ = ["Head", "Middle", "TextTokens"]


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A text's tokens: how many there are, and where they begin and end.

    `tokenizer` is a fast tokenizer of transformers; without one, places are estimated by the counter.
    """

    counter: TokenCounter
    tokenizer: Any | None = None

    def __post_init__(self) -> None:
        if self.tokenizer is not None and not getattr(self.tokenizer, "is_fast", False):
            raise ConfigurationError("tokenizer: a fast one is needed, which tells where its tokens are")

    def head(self, text: str, num_tokens: int) -> str:
        """The text of the first tokens; a character that they only begin is left out."""
        spans = self._spans(text)
        if spans is None:
            return text[: longest_fit(lambda n: self.counter.count(text[:n]), len(text), num_tokens)]
        if num_tokens >= len(spans):
            return text
        end = spans[num_tokens - 1][1] if num_tokens > 0 else 0
        return text[: min(end, spans[num_tokens][0])]

    def tail(self, text: str, num_tokens: int) -> str:
        """The text of the last tokens; a character that they only end is left out."""
        spans = self._spans(text)
        if spans is None:
            length = longest_fit(lambda n: self.counter.count(text[len(text) - n :]), len(text), num_tokens)
            return text[len(text) - length :]
        if num_tokens >= len(spans):
            return text
        if num_tokens <= 0:
            return ""
        return text[max(spans[-num_tokens][0], spans[-num_tokens - 1][1]) :]

    def _spans(self, text: str) -> list[tuple[int, int]] | None:
        if self.tokenizer is None:
            return None
        encoded = self.tokenizer.backend_tokenizer.encode(clean_text(text), add_special_tokens=False)
        return list(encoded.offsets)


@dataclass(frozen=True, slots=True)
class Middle:
    """Keeps the first and the last half of the tokens, nothing between them: LongBench's truncation.

    Source: LongBench's pred.py (THUDM/LongBench), which cuts the tokens of a prompt at both halves of its
    limit and joins their texts. Here a character whose bytes are parted by the cut is left out.
    """

    tokens: TextTokens

    @property
    def configuration(self) -> str:
        return f"middle/1({self.tokens.counter.name})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """Both halves; the query is not used."""
        wanted = target_tokens
        shortened = text
        while wanted > 0 and counter.count(shortened) > target_tokens:
            # Joined, the halves may be parted into more tokens than each on its own.
            shortened = self.tokens.head(text, wanted - wanted // 2) + self.tokens.tail(text, wanted // 2)
            wanted -= 1
        return Rendition(shortened, "truncate", "text")


@dataclass(frozen=True, slots=True)
class Head:
    """Keeps the first tokens."""

    tokens: TextTokens

    @property
    def configuration(self) -> str:
        return f"head/1({self.tokens.counter.name})"

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """The beginning; the query is not used."""
        wanted = target_tokens
        shortened = text
        while wanted > 0 and counter.count(shortened) > target_tokens:
            shortened = self.tokens.head(text, wanted)
            wanted -= 1
        return Rendition(shortened, "head", "text")
