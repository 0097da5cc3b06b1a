"""A request's running counts, and the report made of them."""

from __future__ import annotations

from ..protocol import AsymSpecReport, CachedTokens, CrossFamilyReport
from .loop import Block

__all__ = ["Tally"]


class Tally:
    """Adds up blocks. Tokens are counted before trimming at EOS, stop or max_tokens."""

    def __init__(self, num_places: int) -> None:
        self.num_blocks = self.num_drafted = 0
        self.by_origin = {"accepted": 0, "fused": 0, "bonus": 0}
        self.accepted_per_position = [0] * num_places
        self._divergence_sum = 0.0
        self._num_judged = 0

    def add(self, block: Block) -> None:
        """Counts one block."""
        self.num_blocks += 1
        self.num_drafted += block.num_drafted
        self._divergence_sum += sum(block.divergence)
        self._num_judged += len(block.divergence)
        for place, origin in enumerate(block.origins):
            self.by_origin[origin] += 1
            if origin == "accepted":
                self.accepted_per_position[place] += 1

    def report(
        self,
        *,
        mode: str,
        fallback: str | None,
        verifier_prompt_tokens: int,
        drafter_prompt_tokens: int,
        cached_tokens: CachedTokens,
        cross_family: CrossFamilyReport | None = None,
        images: int = 0,
    ) -> AsymSpecReport:
        """The report of the blocks added so far."""
        return AsymSpecReport(
            mode=mode,
            fallback=fallback,
            verifier_prompt_tokens=verifier_prompt_tokens,
            drafter_prompt_tokens=drafter_prompt_tokens,
            cached_tokens=cached_tokens,
            images=images,
            blocks=self.num_blocks,
            drafted=self.num_drafted,
            accepted=self.by_origin["accepted"],
            fused=self.by_origin["fused"],
            bonus=self.by_origin["bonus"],
            accepted_per_position=tuple(self.accepted_per_position),
            mean_divergence=self._divergence_sum / self._num_judged if self._num_judged else 0.0,
            cross_family=cross_family,
        )
