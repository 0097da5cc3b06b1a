"""The view policy: what stays verbatim, what is compressed, and both budgets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from ..compress.base import ContentKind
from ..errors import ConfigurationError

__all__ = ["ToolKind", "ViewPolicy"]

ToolKind = Literal[ContentKind, "verbatim"]

MAX_TIMEOUT_S = 86_400


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewPolicy:
    """What stays verbatim, what is compressed, and both budgets; raises ConfigurationError.

    `keep_last`: turns kept verbatim. `first_sight_tokens`: longer texts are compressed wherever they stand.
    `min_part_tokens`: shorter texts stay as they are, budget aside. `min_gain`: least share of tokens a
    rendition must save. A rendition has `ratio` of its original's tokens, `max_rendition_tokens` at most;
    head and tail have `headtail_tokens`. `high_water` and `low_water` are shares of a budget.
    `protected`: regular expressions whose matches no compressed rendition may lose; they run without a
    limit of time, so none should be of the kind that explodes, such as `(a+)+$`.
    `tool_kinds`: what the results of tools are, by the tools' names (a mapping or pairs), where it is not to
    be told from the content; `verbatim` results are shortened by a budget only.
    `observation_markers`: beginnings of user messages that are results. `call_markers`: beginnings of lines
    in assistant texts that are tool calls. `compress_timeout_s`: time for one rendition, None for no limit.
    """

    keep_last: int = 2
    first_sight_tokens: int = 1_000
    min_part_tokens: int = 200
    min_gain: float = 0.15
    ratio: float = 0.3
    max_rendition_tokens: int = 2_000
    headtail_tokens: int = 120
    max_verifier_tokens: int | None = None
    max_drafter_tokens: int | None = None
    high_water: float = 0.9
    low_water: float = 0.7
    on_drafter_overflow: Literal["truncate", "raise"] = "truncate"
    protected: tuple[str, ...] = ()
    tool_kinds: Mapping[str, ToolKind] | tuple[tuple[str, ToolKind], ...] = ()
    observation_markers: tuple[str, ...] = (
        "Observation:",
        "Call id:",
        "Error:\n",
        "Now proceed and carry out this plan.",
    )
    call_markers: tuple[str, ...] = ("Calling tools:", "<tool_call>")
    compress_timeout_s: float | None = 30.0
    tool_signatures: bool = True

    def __post_init__(self) -> None:
        for name, least in (
            ("keep_last", 0),
            ("first_sight_tokens", 1),
            ("min_part_tokens", 0),
            ("max_rendition_tokens", 1),
            ("headtail_tokens", 1),
        ):
            self._check(name, _is_int(getattr(self, name), least), f"an integer of at least {least}")
        for name in ("max_verifier_tokens", "max_drafter_tokens"):
            limit = getattr(self, name)
            self._check(name, limit is None or _is_int(limit, 1), "None or an integer of at least 1")
        self._check("min_gain", _is_number(self.min_gain) and 0 <= self.min_gain < 1, "in [0, 1)")
        self._check("ratio", _is_number(self.ratio) and 0 < self.ratio < 1, "in (0, 1)")
        self._check("high_water", _is_number(self.high_water) and 0 < self.high_water <= 1, "in (0, 1]")
        is_low = _is_number(self.low_water) and 0 < self.low_water <= self.high_water
        self._check("low_water", is_low, "in (0, high_water]")
        is_known = self.on_drafter_overflow in ("truncate", "raise")
        self._check("on_drafter_overflow", is_known, "'truncate' or 'raise'")
        timeout_s = self.compress_timeout_s
        is_time = timeout_s is None or (_is_number(timeout_s) and 0 < timeout_s <= MAX_TIMEOUT_S)
        self._check("compress_timeout_s", is_time, f"None or in (0, {MAX_TIMEOUT_S:,}] seconds")
        self._check("tool_signatures", isinstance(self.tool_signatures, bool), "true or false")
        for name in ("protected", "observation_markers", "call_markers"):
            texts = getattr(self, name)
            is_texts = isinstance(texts, tuple) and all(isinstance(text, str) and text for text in texts)
            self._check(name, is_texts, "a tuple of non-empty strings")
        self._check_tool_kinds()
        for pattern in self.protected:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ConfigurationError(f"protected={pattern!r}: no regular expression ({error})") from error

    def kind_of(self, tool: str | None) -> ToolKind | None:
        """The kind that was named for a tool's results; None where there is none."""
        return next((kind for name, kind in self._kind_pairs() if name == tool), None)

    @property
    def compressor_kinds(self) -> tuple[ContentKind, ...]:
        """The kinds named for tools that a compressor has to know."""
        return tuple(dict.fromkeys(kind for _, kind in self._kind_pairs() if kind != "verbatim"))

    @property
    def longest_shown_tokens(self) -> int:
        """The range of exact counts: no text in a limited view has more, nor a rendition."""
        limits = (self.max_verifier_tokens or 0, self.max_drafter_tokens or 0)
        return max(*limits, self.first_sight_tokens, self.max_rendition_tokens, self.headtail_tokens)

    def _kind_pairs(self) -> tuple[tuple[str, ToolKind], ...]:
        given = self.tool_kinds
        return tuple(given.items()) if isinstance(given, Mapping) else given

    def _check_tool_kinds(self) -> None:
        pairs = self._kind_pairs()
        kinds = (*get_args(ContentKind), "verbatim")
        is_pairs = isinstance(pairs, tuple) and all(
            isinstance(pair, tuple | list)
            and len(pair) == 2
            and isinstance(pair[0], str)
            and pair[1] in kinds
            for pair in pairs
        )
        self._check("tool_kinds", is_pairs, f"tool names with one of {', '.join(kinds)}")
        object.__setattr__(self, "tool_kinds", tuple(map(tuple, pairs)))  # hashable, whatever was given

    def _check(self, name: str, is_valid: bool, limit: str) -> None:
        if not is_valid:
            raise ConfigurationError(f"{name}={getattr(self, name)!r}: must be {limit}")


def _is_int(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
