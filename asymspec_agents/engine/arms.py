"""The arms: which model reads which view in which role, for AsymSpec and everything it is compared with.

Source: AsymSpec (arXiv 2608.26004), sections 4 and 5; SCD is speculative contrastive decoding, RAPID the
reversed arrangement (the drafter reads the short view, the verifier the long one).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from ..decoding.modes import BonusMode, Rule
from ..errors import ConfigurationError
from ..protocol import AsymSpecOptions

__all__ = ["ARMS", "Arm", "Decoding", "ModelRole", "Reading", "ViewName", "arm_named"]

ModelRole = Literal["verifier", "drafter"]
ViewName = Literal["full", "compressed"]


@dataclass(frozen=True, slots=True)
class Reading:
    """A model and the view it reads."""

    model: ModelRole
    view: ViewName


@dataclass(frozen=True, slots=True)
class Decoding:
    """How an arm decodes: the rule, drafts per block, bonus, and what the report says of it."""

    mode: str
    rule: Rule
    num_draft_tokens: int
    bonus: BonusMode
    is_asymmetric: bool  # identical views then decode strict, unless the options keep the gate
    keeps_gate: bool = False


@dataclass(frozen=True, slots=True)
class Arm:
    """One arrangement. `drafting` None: plain greedy. `rule` None: the request's own options decide, else
    only its beta, drafts per block and bonus are theirs."""

    name: str
    verifying: Reading
    drafting: Reading | None = None
    base: Reading | None = None
    rule: Rule | None = None

    def decoding(self, options: AsymSpecOptions) -> Decoding:
        """How this arm decodes a request with these options."""
        if self.drafting is None:
            return Decoding(self.name, Rule("strict", "none"), 0, "verifier", is_asymmetric=False)
        if self.rule is not None:
            rule = replace(self.rule, beta=options.beta)
            return Decoding(self.name, rule, options.num_draft_tokens, options.bonus, is_asymmetric=False)
        return Decoding(
            options.mode_name,
            options.rule(),
            options.num_draft_tokens,
            options.bonus,
            is_asymmetric=True,
            keeps_gate=options.identical_views == "gate",
        )


LARGE_FULL, LARGE_SHORT = Reading("verifier", "full"), Reading("verifier", "compressed")
SMALL_FULL, SMALL_SHORT = Reading("drafter", "full"), Reading("drafter", "compressed")
STRICT = Rule("strict", "none")

ARMS: dict[str, Arm] = {
    arm.name: arm
    for arm in (
        Arm("asymspec", LARGE_SHORT, SMALL_FULL, SMALL_SHORT),
        Arm("floor", LARGE_SHORT),
        Arm("ceiling", LARGE_FULL),
        Arm("drafter", SMALL_FULL),
        Arm("symmetric_full", LARGE_FULL, SMALL_FULL, rule=STRICT),
        Arm("symmetric_compressed", LARGE_SHORT, SMALL_SHORT, rule=STRICT),
        Arm("scd", LARGE_SHORT, SMALL_SHORT, rule=Rule("fused_greedy", "scd", plausibility=0.1)),
        Arm("rapid", LARGE_FULL, SMALL_SHORT, rule=STRICT),
    )
}


def arm_named(name: str) -> Arm:
    """The arm of that name; raises ConfigurationError listing the names."""
    if name not in ARMS:
        raise ConfigurationError(f"arm={name!r} is unknown; arms: {', '.join(ARMS)}")
    return ARMS[name]
