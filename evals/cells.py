"""What is compared: arms (who decodes how, from which view) and views (how the compressed view is made).

An arm is written `asymspec`, `floor`, `asymspec:beta=2,num_draft_tokens=4`; a view `extract@0.3` (a share of
the tokens), `truncate@500` (a number of tokens), `signature`. Both have one canonical spelling, which is
their name in records and reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from asymspec_agents.decoding.modes import MODES
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.protocol import AsymSpecOptions

__all__ = ["BASELINES", "IDENTICAL", "READS_FULL_ONLY", "ArmSpec", "Cell", "Reader", "ViewSpec", "cells_of"]

Reader = Literal["verifier", "drafter"]

BASELINES = ("floor", "ceiling", "drafter", "symmetric_full", "symmetric_compressed", "scd", "rapid")
"""Arms that are no mode of AsymSpec."""

IDENTICAL = "identical"
"""The no-harm control: AsymSpec given the full view twice, which must decode what Ceiling does."""

READS_FULL_ONLY = frozenset({"ceiling", "drafter", "symmetric_full", IDENTICAL})
"""Arms to which it does not matter how the compressed view is made."""

_BOTH: frozenset[Reader] = frozenset({"verifier", "drafter"})
_VERIFIER: frozenset[Reader] = frozenset({"verifier"})
_DRAFTER: frozenset[Reader] = frozenset({"drafter"})
_NOBODY: frozenset[Reader] = frozenset()

# Who reads the full view, and who the compressed one, in the arms that are no mode of AsymSpec.
_READERS: dict[str, tuple[frozenset[Reader], frozenset[Reader]]] = {
    "floor": (_NOBODY, _VERIFIER),
    "ceiling": (_VERIFIER, _NOBODY),
    "drafter": (_DRAFTER, _NOBODY),
    "symmetric_full": (_BOTH, _NOBODY),
    "symmetric_compressed": (_NOBODY, _BOTH),
    "scd": (_NOBODY, _BOTH),
    "rapid": (_VERIFIER, _DRAFTER),
    IDENTICAL: (_BOTH, _NOBODY),
}

_PRESETS: dict[str, dict[str, Any]] = {"paper": {"bonus": "verifier", "identical_views": "gate"}}


@dataclass(frozen=True, slots=True)
class ArmSpec:
    """An arm by name (a baseline, a mode, the `paper` preset, `gate+delta`), with options where it has any.

    Raises ConfigurationError naming what is unknown or out of range.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        known = (*BASELINES, IDENTICAL, *MODES, *_PRESETS)
        if self.name not in known and "+" not in self.name:
            raise ConfigurationError(f"arm={self.name!r} is unknown; arms: {', '.join(known)}, or GATE+DELTA")
        self.asymspec_options()

    @classmethod
    def parse(cls, text: str) -> ArmSpec:
        """The arm of `name` or `name:option=value,option=value`."""
        name, _, given = text.partition(":")
        options: dict[str, Any] = {}
        for option, value in (_option(text, pair) for pair in given.split(",") if given):
            if option in options:
                raise ConfigurationError(f"arm={text!r}: option {option!r} is given twice")
            options[option] = value
        return cls(name.strip(), options)

    def __str__(self) -> str:
        given = ",".join(f"{name}={_shown(self.options[name])}" for name in sorted(self.options))
        return f"{self.name}:{given}" if given else self.name

    @property
    def needs_view(self) -> bool:
        """Whether any model of this arm reads the compressed view."""
        return self.name not in READS_FULL_ONLY

    @property
    def full_readers(self) -> frozenset[Reader]:
        """The models that read the full view."""
        return _READERS[self.name][0] if self.name in _READERS else _DRAFTER

    @property
    def compressed_readers(self) -> frozenset[Reader]:
        """The models that read the compressed view; the drafter does so in its base pass."""
        if self.name in _READERS:
            return _READERS[self.name][1]
        return _BOTH if self.asymspec_options().rule().needs_base else _VERIFIER

    def asymspec_options(self) -> AsymSpecOptions:
        """The options of its requests; a baseline has only those that matter to it."""
        chosen = {**_PRESETS.get(self.name, {}), **self.options}
        if self.name in MODES:
            chosen["mode"] = self.name
        elif "+" in self.name:
            chosen["gate"], chosen["delta"] = self.name.split("+", 1)
        return AsymSpecOptions.of(**chosen)


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """A way to shorten: a method, and its size as a share of the tokens (at most 1) or as tokens."""

    method: str
    size: float | None = None

    def __post_init__(self) -> None:
        if not self.method or (self.size is not None and not 0 < self.size < 10_000_000):
            raise ConfigurationError(f"view={str(self)!r} must be METHOD, METHOD@SHARE or METHOD@TOKENS")
        if self.size is not None and self.size > 1 and not float(self.size).is_integer():
            raise ConfigurationError(
                f"view={str(self)!r}: a share is at most 1, and a number of tokens is a whole number"
            )

    @classmethod
    def parse(cls, text: str) -> ViewSpec:
        """The view of `method` or `method@size`; raises ConfigurationError where the size is no number."""
        method, separator, size = text.strip().partition("@")
        if not separator:
            return cls(method)
        try:
            number = float(size)
        except ValueError:
            raise ConfigurationError(f"view={text!r}: {size!r} is no share and no number of tokens") from None
        if not math.isfinite(number) or number <= 0:
            raise ConfigurationError(f"view={text!r}: {size!r} is no share and no number of tokens")
        return cls(method, number)

    def __str__(self) -> str:
        return self.method if self.size is None else f"{self.method}@{self.size:.10g}"

    def target_tokens(self, num_tokens: int) -> int:
        """The size in tokens for a text of `num_tokens`."""
        if self.size is None:
            return num_tokens
        return max(1, round(self.size * num_tokens) if self.size <= 1 else round(self.size))


@dataclass(frozen=True, slots=True)
class Cell:
    """One arm on one view; no view where the arm reads the full one only."""

    arm: ArmSpec
    view: ViewSpec | None

    @classmethod
    def parse(cls, text: str) -> Cell:
        """The cell of its name."""
        arm, _, view = text.partition(" on ")
        return cls(ArmSpec.parse(arm), ViewSpec.parse(view) if view else None)

    def __str__(self) -> str:
        return str(self.arm) if self.view is None else f"{self.arm} on {self.view}"


def cells_of(arms: tuple[ArmSpec, ...], views: tuple[ViewSpec, ...]) -> tuple[Cell, ...]:
    """Every arm on every view, once each; arms that read the full view only stand without a view.

    Raises ConfigurationError where an arm needs a view and there is none.
    """
    cells: dict[str, Cell] = {}
    for arm in arms:
        if arm.needs_view and not views:
            raise ConfigurationError(f"arm={str(arm)!r} reads a compressed view; name one with --view")
        for view in views if arm.needs_view else (None,):
            cell = Cell(arm, view)
            cells[str(cell)] = cell
    return tuple(cells.values())


def _option(text: str, pair: str) -> tuple[str, Any]:
    name, separator, value = pair.partition("=")
    if not separator:
        raise ConfigurationError(f"arm={text!r}: {pair!r} must be option=value")
    field_ = AsymSpecOptions.model_fields.get(name.strip())
    if field_ is None:
        raise ConfigurationError(f"arm={text!r}: option {name.strip()!r} is unknown")
    value = value.strip()
    if field_.annotation is float:
        return name.strip(), _number(text, value, float)
    if field_.annotation is int:
        return name.strip(), _number(text, value, int)
    if field_.annotation is bool:
        if value not in ("true", "false"):
            raise ConfigurationError(f"arm={text!r}: {name.strip()}={value!r} must be true or false")
        return name.strip(), value == "true"
    return name.strip(), value


def _number(text: str, value: str, kind: type[float] | type[int]) -> float | int:
    try:
        return kind(value)
    except ValueError:
        raise ConfigurationError(f"arm={text!r}: {value!r} is no {kind.__name__}") from None


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.10g}" if isinstance(value, float) else str(value)
