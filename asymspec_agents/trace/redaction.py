"""What must not be written of contents: patterns and functions that change every text of a trace."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import ConfigurationError

__all__ = ["NOTHING", "Redaction"]

REDACTED = "[redacted]"
# No contents but names and this package's own words, which readers of a trace rely on.
_NAMES = frozenset({"event", "request_id", "digest", "shown_digest", "task_digest"}) | frozenset(
    {"origin", "origins", "arm", "mode", "gate", "delta", "bonus", "kind", "tier"}
)
# Pieces of an answer: a secret may be spread over many of them, so no pattern would find it.
_PIECES = {"block": ("text", "token_ids")}
_POSITION_PIECES = frozenset({"text", "token", "token_id", "draft", "draft_id", "argmax", "argmax_id"})
_BEST = ("best_t", "best_a", "best_b")


@dataclass(frozen=True, slots=True)
class Redaction:
    """Changes the texts of events before they are written.

    What matches one of `patterns` (regular expressions) becomes `[redacted]`; then each of `functions` is
    given the text and returns what to write. Both see whole texts: an answer's, and a message's. An answer is
    therefore recorded as a whole only, in its `response` event; blocks and positions keep their numbers and
    lose token ids and texts. A function that raises loses the event, never its redaction. Raises
    ConfigurationError for what is no pattern or no function.
    """

    patterns: tuple[str | re.Pattern[str], ...] = ()
    functions: tuple[Callable[[str], str], ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.patterns, str | re.Pattern) or callable(self.functions):
            raise ConfigurationError("patterns and functions must be lists, not a single one")
        compiled = []
        for pattern in self.patterns:
            try:
                compiled.append(re.compile(pattern))
            except (re.error, TypeError) as error:
                raise ConfigurationError(
                    f"patterns: {pattern!r} is no regular expression: {error}"
                ) from error
        for function in self.functions:
            if not callable(function):
                raise ConfigurationError(f"functions: {function!r} cannot be called")
        object.__setattr__(self, "patterns", tuple(compiled))
        object.__setattr__(self, "functions", tuple(self.functions))

    def redacted(self, data: dict[str, Any]) -> dict[str, Any]:
        """The event's plain data with every text redacted; may raise what a function raises."""
        if not self.patterns and not self.functions:
            return data
        left_out = _PIECES.get(str(data.get("event")), ())
        kept = {name: value for name, value in data.items() if name not in left_out}
        if isinstance(kept.get("positions"), list):
            kept["positions"] = [_numbers_of(position) for position in kept["positions"]]
        return {name: value if name in _NAMES else self._walk(value) for name, value in kept.items()}

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {name: item if name in _NAMES else self._walk(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self._walk(item) for item in value]
        return value

    def _text(self, text: str) -> str:
        for pattern in self.patterns:
            text = re.sub(pattern, REDACTED, text)
        for function in self.functions:
            try:
                changed = function(text)
            except Exception as error:  # its words may quote the text, and go into a log
                raise ValueError(f"a redaction failed with {type(error).__name__}") from None
            if not isinstance(changed, str):
                raise TypeError(f"a redaction returned {type(changed).__name__}, not a text")
            text = changed
        return text


def _numbers_of(position: Any) -> Any:
    if not isinstance(position, dict):
        return position
    numbers = {name: value for name, value in position.items() if name not in _POSITION_PIECES}
    for name in _BEST:
        if name in numbers:
            numbers[name] = [choice[:1] for choice in numbers[name] if isinstance(choice, list)]
    return numbers


NOTHING = Redaction()
"""No redaction."""
