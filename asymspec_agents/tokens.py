"""Token counts: by a real tokenizer, or by an estimate that knows scripts without spaces."""

from __future__ import annotations

from typing import Protocol

__all__ = ["TokenCounter"]


class TokenCounter(Protocol):
    """Counts tokens of plain text. Invariants: pure, thread-safe, never raises for any Python string."""

    @property
    def name(self) -> str:
        """Identifies the counter in cache keys: equal names count equally."""

    def count(self, text: str) -> int:
        """Number of tokens of the text alone, without special tokens."""
