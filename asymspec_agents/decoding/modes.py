"""What a decoding rule is: a gate, a delta and their parameters, as plain values without torch.

Source: AsymSpec (arXiv 2608.26004), section 3 for gate `cda` with delta `context`; the other pairs are its
ablations and the baselines it compares with.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from ..errors import ConfigurationError

__all__ = ["MAX_DRAFT_TOKENS", "MODES", "BonusMode", "Delta", "Gate", "Rule", "named_rule"]

Gate = Literal["cda", "fixed", "position", "fused_greedy", "slack", "strict"]
Delta = Literal["context", "full", "scd", "none"]
BonusMode = Literal["rule", "verifier", "none"]

MAX_DRAFT_TOKENS = 8


def _check_range(
    field: str, value: float, low: float, high: float, *, open_low: bool = False, open_high: bool = False
) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    inside = (
        number
        and (low < value if open_low else low <= value)
        and (value < high if open_high else value <= high)
    )
    if not inside:  # NaN compares false and lands here too
        interval = f"{'(' if open_low else '['}{low:g}, {high:g}{')' if open_high else ']'}"
        raise ConfigurationError(f"{field}={value!r} is outside {interval}")


@dataclass(frozen=True, slots=True)
class Rule:
    """One decoding rule; immutable, validated at construction.

    `beta` weighs the delta in the score s = log p_t + beta·Δ; `gamma` is the gates' threshold; `slack` (g) is
    used by gate `slack`; `scale` (c), when set, multiplies beta by min(1, c·JSD/ln 2); `plausibility` (α)
    keeps from the score the tokens with p_t < α·max p_t; `agreement` accepts a draft wherever full-view
    drafter and verifier have the same best token.
    """

    gate: Gate = "cda"
    delta: Delta = "context"
    beta: float = 1.0
    gamma: float = 0.5
    slack: float = 1.0
    scale: float | None = None
    plausibility: float = 0.0
    agreement: bool = False

    def __post_init__(self) -> None:
        if self.gate not in get_args(Gate):
            raise ConfigurationError(f"gate={self.gate!r} is unknown; gates: {', '.join(get_args(Gate))}")
        if self.delta not in get_args(Delta):
            raise ConfigurationError(f"delta={self.delta!r} is unknown; deltas: {', '.join(get_args(Delta))}")
        _check_range("beta", self.beta, 0, 4)
        _check_range("gamma", self.gamma, 0, 4)
        _check_range("slack", self.slack, 0, 1, open_low=True)
        _check_range("plausibility", self.plausibility, 0, 1, open_high=True)
        if self.scale is not None:
            _check_range("scale", self.scale, 0, math.inf, open_low=True, open_high=True)
        if not isinstance(self.agreement, bool):
            raise ConfigurationError(f"agreement={self.agreement!r} is not true or false")

    @property
    def needs_base(self) -> bool:
        """Whether the drafter's base pass over the compressed view enters the rule at all."""
        if self.gate == "strict":
            return False
        return (
            self.gate in ("cda", "fixed", "position")
            or self.delta in ("context", "scd")
            or self.scale is not None
        )

    @property
    def needs_drafter(self) -> bool:
        """Whether the drafter's full-view distribution (not only its proposals) enters the rule."""
        if self.gate == "strict":
            return False
        return (
            self.gate in ("cda", "position")
            or self.delta in ("context", "full")
            or self.agreement
            or self.scale is not None
        )


MODES: dict[str, Rule] = {
    "asymspec": Rule("cda", "context"),
    "cda_only": Rule("cda", "none"),
    "raw_full": Rule("cda", "full"),
    "scd_delta": Rule("cda", "scd"),
    "fixed_gate": Rule("fixed", "context"),
    "fused_greedy": Rule("fused_greedy", "context"),
    "product": Rule("fused_greedy", "full"),
    "scaled": Rule("fused_greedy", "context", scale=4.0),
    "strict": Rule("strict", "none"),
}


def named_rule(mode: str, **parameters: Any) -> Rule:
    """The rule of a named mode with some of its parameters replaced; raises ConfigurationError."""
    if mode not in MODES:
        raise ConfigurationError(f"mode={mode!r} is unknown; modes: {', '.join(MODES)}")
    return replace(MODES[mode], **parameters)
