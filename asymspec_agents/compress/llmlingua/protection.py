"""What a rendition must have whatever the classifier says: the project's protected spans, and patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ...errors import ConfigurationError
from ..protected import PROTECTION, protected_spans

__all__ = ["Protected", "Protection", "nothing_protected", "protection_name"]

Protected = Callable[[str], Iterable[tuple[int, int]]]
"""Gives the places `(start, end)` of a text that a rendition must have."""


@dataclass(frozen=True, slots=True)
class Protection:
    """The places of ids, numbers with units, dates, paths, addresses, code, negations and error names (see
    `compress.protected`), and of what matches one of the `patterns`; raises ConfigurationError.
    """

    patterns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        is_patterns = isinstance(self.patterns, tuple) and all(isinstance(p, str) for p in self.patterns)
        if not is_patterns:
            raise ConfigurationError(f"patterns={self.patterns!r}: must be a tuple of regular expressions")
        for pattern in self.patterns:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigurationError(f"patterns={pattern!r}: no regular expression ({error})") from error

    @property
    def configuration(self) -> str:
        return f"{PROTECTION}+{self.patterns!r}" if self.patterns else PROTECTION

    def __call__(self, text: str) -> list[tuple[int, int]]:
        """The places as (start, end), in no order."""
        matches = (match.span() for pattern in self.patterns for match in re.finditer(pattern, text))
        return [*protected_spans(text), *matches]


def nothing_protected(text: str) -> tuple[tuple[int, int], ...]:
    """No places: the classifier decides on every word, as in the paper."""
    return ()


def protection_name(protected: Protected) -> str:
    """What a configuration calls a function that names protected spans."""
    named = getattr(protected, "configuration", None)
    if isinstance(named, str):
        return named
    kind = protected if hasattr(protected, "__qualname__") else type(protected)
    return f"{kind.__module__}.{kind.__qualname__}"
