"""The compression ratio as a caller's state: which turn from which on is compressed to which share.

The router keeps no state of its own, so what adapts belongs to the caller and travels with the call: the same
messages with the same state give the same view in any process. A state only ever grows at its end: what was
compressed with one state looks the same under every state that follows from it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import ConfigurationError

__all__ = ["RateState", "RateStep"]


@dataclass(frozen=True, slots=True)
class RateStep:
    """Turns from index `from_turn` on are compressed to `ratio` of their tokens, until the next step."""

    from_turn: int
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RateState:
    """The ratio of every turn, past and to come; raises ConfigurationError.

    Turns count from 0 in the list at hand; turns before the first step have the policy's own ratio.
    `num_turns`: the most turns any routed list had; no step is ever added below it. `divergence` (nats) and
    `acceptance` (share of drafts) are smoothed over the answers read so far, None before the first;
    `num_since_move` counts the answers read since the ratio last moved.
    """

    steps: tuple[RateStep, ...] = ()
    num_turns: int = 0
    divergence: float | None = None
    acceptance: float | None = None
    num_since_move: int = 0
    _turns: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("num_turns", "num_since_move"):
            _check(name, getattr(self, name), _is_count(getattr(self, name)), "an integer of at least 0")
        for name, most in (("divergence", math.log(2) + 1e-6), ("acceptance", 1.0)):
            value = getattr(self, name)
            _check(name, value, value is None or _is_number(value, 0, most), f"None or from 0 to {most:.4g}")
        is_steps = isinstance(self.steps, tuple) and all(isinstance(step, RateStep) for step in self.steps)
        _check("steps", self.steps, is_steps, "a tuple of RateStep")
        before = -math.inf
        for step in self.steps:
            is_later = isinstance(step.from_turn, int) and not isinstance(step.from_turn, bool)
            _check(
                "steps.from_turn",
                step.from_turn,
                is_later and step.from_turn > before,
                "an ascending integer",
            )
            is_ratio = _is_number(step.ratio, 0, 1) and 0 < step.ratio < 1
            _check("steps.ratio", step.ratio, is_ratio, "in (0, 1)")
            before = step.from_turn
        object.__setattr__(self, "_turns", tuple(step.from_turn for step in self.steps))

    def ratio(self, turn: int, otherwise: float) -> float:
        """The ratio of a turn, `otherwise` (the policy's own) before the first step."""
        at = bisect_right(self._turns, turn)
        return self.steps[at - 1].ratio if at else otherwise

    def seen(self, num_turns: int) -> RateState:
        """The state after a list of so many turns was routed with it: none of these can change any more."""
        return replace(self, num_turns=max(self.num_turns, num_turns))

    def moved(self, ratio: float) -> RateState:
        """The state whose turns not seen yet have another ratio."""
        last = self.steps[-1].from_turn if self.steps else -1
        step = RateStep(max(self.num_turns, last + 1), ratio)
        return replace(self, steps=(*self.steps, step), num_since_move=0)

    def without_turns(self, num_turns: int) -> RateState:
        """The state for a list whose oldest turns were taken out: the others keep their ratios."""
        steps = tuple(RateStep(step.from_turn - num_turns, step.ratio) for step in self.steps)
        return replace(self, steps=steps, num_turns=max(0, self.num_turns - num_turns))

    def wire(self) -> dict[str, Any]:
        """Plain JSON values, from which `of` makes an equal state."""
        return {
            "steps": [[step.from_turn, step.ratio] for step in self.steps],
            "num_turns": self.num_turns,
            "divergence": self.divergence,
            "acceptance": self.acceptance,
            "num_since_move": self.num_since_move,
        }

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> RateState:
        """The state of `wire`'s values; raises ConfigurationError for others."""
        try:
            steps = tuple(RateStep(from_turn, ratio) for from_turn, ratio in values.get("steps", ()))
            return cls(**{**values, "steps": steps})
        except (TypeError, ValueError, AttributeError) as error:
            raise ConfigurationError(f"rate: not the values of a RateState ({error})") from error


def _check(name: str, value: object, is_valid: bool, limit: str) -> None:
    if not is_valid:
        raise ConfigurationError(f"rate.{name}={value!r}: must be {limit}")


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_number(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
