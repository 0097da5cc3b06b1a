"""What a run computed, in FLOPs, and what Ceiling would have computed for the same calls.

Source: AsymSpec's cost model, FLOPs ≈ 2·params·tokens; with prefix caching only tokens really computed count.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ConfigurationError
from .metrics import ROLES, Metrics, ratio

__all__ = ["Cost", "break_even", "cost"]


@dataclass(frozen=True, slots=True)
class Cost:
    """FLOPs of a run, and of Ceiling (the verifier alone, reading the full view) on the same calls.

    Ceiling is given the same prefix reuse and the same answers; its prompt is what the drafter computed, so a
    run without a drafter has no Ceiling to compare with, and a drafter with another tokenizer shifts it.
    """

    prefill_flops: int
    decode_flops: int
    ceiling_prefill_flops: int
    ceiling_decode_flops: int

    @property
    def prefill_ratio(self) -> float | None:
        """Prefill FLOPs relative to Ceiling's."""
        return ratio(self.prefill_flops, self.ceiling_prefill_flops)

    @property
    def total_ratio(self) -> float | None:
        """All FLOPs relative to Ceiling's; None without a Ceiling."""
        if not self.ceiling_prefill_flops:
            return None
        ceiling = self.ceiling_prefill_flops + self.ceiling_decode_flops
        return ratio(self.prefill_flops + self.decode_flops, ceiling)


def cost(metrics: Metrics, *, verifier_params: int, drafter_params: int) -> Cost:
    """The cost of what was really computed, at 2·params FLOPs a position (AsymSpec's cost model).

    Decoding is what the models forwarded beyond the computed part of their prompts: K+1 positions of the
    verifier and of both drafter passes a block. Raises ConfigurationError for counts that are not positive.
    """
    for name, value in (("verifier_params", verifier_params), ("drafter_params", drafter_params)):
        if value <= 0:
            raise ConfigurationError(f"{name}={value!r} is not a positive number of parameters")
    computed, forwarded = metrics.computed_tokens, metrics.forwarded_tokens
    weights = {"verifier": verifier_params, "base": drafter_params, "drafter": drafter_params}
    return Cost(
        prefill_flops=sum(2 * weights[role] * getattr(computed, role) for role in ROLES),
        decode_flops=sum(
            2 * weights[role] * max(0, getattr(forwarded, role) - getattr(computed, role)) for role in ROLES
        ),
        ceiling_prefill_flops=2 * verifier_params * computed.drafter,
        ceiling_decode_flops=2 * verifier_params * metrics.num_response_tokens,
    )


def break_even(*, verifier_params: int, drafter_params: int) -> float:
    """The compressed share of the full view below which AsymSpec prefills cheaper than Ceiling.

    With s = drafter/verifier it is (1−s)/(1+s), from L·c + S·(1 + c) < L; not above 0 where the drafter is as
    large as the verifier.
    """
    share = drafter_params / verifier_params
    return (1 - share) / (1 + share)
