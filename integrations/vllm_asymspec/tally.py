"""What the worker counted for one request so far, and the report that answers the request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from asymspec_agents.protocol import PROTOCOL_VERSION

__all__ = ["CachedCounts", "Tally"]


@dataclass(slots=True)
class CachedCounts:
    """Prompt tokens of each view that others had computed when the request was first read."""

    verifier: int = 0
    base: int = 0
    drafter: int = 0


@dataclass(slots=True)
class Tally:
    """Counts of one request over all its steps; `num_places` are the proposals of a whole block."""

    mode: str
    fallback: str | None
    num_compressed: int
    num_full: int
    num_places: int
    num_images: int = 0
    cached: CachedCounts = field(default_factory=CachedCounts)
    num_blocks: int = 0
    num_drafted: int = 0
    num_accepted: int = 0
    num_fused: int = 0
    num_bonus: int = 0
    num_judged: int = 0
    divergence_sum: float = 0.0
    cross_family: dict[str, Any] | None = None  # the fields of CrossFamilyReport
    warming_s: float = 0.0  # waiting for the drafter to read its views, queueing included
    accepted_at: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.accepted_at = [0] * self.num_places

    def add(self, counts: Sequence[float]) -> None:
        """One step's row of `plan.COUNTS`."""
        places, accepted, fused, bonus, judged, divergence_sum = counts
        if not places:
            return
        self.num_blocks += 1
        self.num_drafted += int(places)
        self.num_accepted += int(accepted)
        self.num_fused += int(fused)
        self.num_bonus += int(bonus)
        self.num_judged += int(judged)
        self.divergence_sum += float(divergence_sum)
        for place in range(int(accepted)):
            self.accepted_at[place] += 1

    def report(self) -> dict[str, Any]:
        """The fields of AsymSpecReport."""
        cached = self.cached
        return {
            "version": PROTOCOL_VERSION,
            "mode": self.mode,
            "verifier_prompt_tokens": self.num_compressed,
            "drafter_prompt_tokens": self.num_full,
            "cached_tokens": {
                "verifier": cached.verifier,
                "base": cached.base,
                "drafter": cached.drafter,
            },
            "blocks": self.num_blocks,
            "drafted": self.num_drafted,
            "accepted": self.num_accepted,
            "fused": self.num_fused,
            "bonus": self.num_bonus,
            "accepted_per_position": list(self.accepted_at),
            "mean_divergence": self.divergence_sum / self.num_judged if self.num_judged else 0.0,
            "fallback": self.fallback,
            "cross_family": self.cross_family,
            "images": self.num_images,
        }
