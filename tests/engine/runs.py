"""One request run to its end, with everything it yielded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from asymspec_agents.engine.arms import arm_named
from asymspec_agents.engine.engine import DecodeRequest, Engine, Outcome, Step
from asymspec_agents.engine.grammar import Grammar
from asymspec_agents.engine.sampling import Sampling
from asymspec_agents.protocol import AsymSpecOptions, AsymSpecReport

__all__ = ["Run", "run"]


@dataclass(frozen=True, slots=True)
class Run:
    """The steps of a request (one a block) and how it ended."""

    steps: tuple[Step, ...]
    outcome: Outcome

    @property
    def tokens(self) -> list[int]:
        return [token for step in self.steps for token in step.tokens]

    @property
    def text(self) -> str:
        return "".join(text for step in self.steps for text, _ in step.pieces)

    @property
    def report(self) -> AsymSpecReport:
        return self.outcome.report


def run(
    engine: Engine,
    views: tuple[list[int], list[int]],
    *,
    arm: str = "asymspec",
    max_tokens: int | None = 40,
    stop: tuple[str, ...] = (),
    cache_salt: str | None = None,
    request_id: str = "",
    sampling: Sampling | None = None,
    grammar: Grammar | None = None,
    **options: Any,
) -> Run:
    """Decodes (full, compressed) to the end; further arguments are AsymSpecOptions."""
    request = DecodeRequest(
        full=views[0],
        compressed=views[1],
        arm=arm_named(arm),
        options=AsymSpecOptions.of(**options),
        max_tokens=max_tokens,
        stop=stop,
        cache_salt=cache_salt,
        request_id=request_id,
        sampling=sampling,
        grammar=grammar,
    )
    stream = engine.decode(request)
    steps = []
    while True:
        try:
            steps.append(next(stream))
        except StopIteration as end:
            return Run(tuple(steps), end.value)
