"""Counters of AsymSpec requests in vLLM's `/metrics`, beside vLLM's own."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from asymspec_agents.protocol import AsymSpecReport
from asymspec_agents.trace import metric_names as names

__all__ = ["Metrics", "metrics"]

ARM = "asymspec"  # plain requests are vLLM's own


@dataclass(frozen=True, slots=True)
class Metrics:
    """prometheus_client's metrics, one set a process."""

    requests: Any
    refusals: Any
    tokens: Any
    prompt_tokens: Any
    cached_tokens: Any
    per_position: Any
    divergence: Any
    prefill: Any
    pool: Any

    def finished(self, report: AsymSpecReport) -> None:
        """Counts an answer that is whole."""
        self.requests.labels(arm=ARM, mode=report.mode, outcome="finished").inc()
        for kind in ("drafted", "accepted", "fused", "bonus"):
            self.tokens.labels(kind=kind).inc(getattr(report, kind))
        cached = report.cached_tokens
        for view, count in (
            ("verifier", cached.verifier),
            ("base", cached.base),
            ("drafter", cached.drafter),
        ):
            self.cached_tokens.labels(view=view).inc(count)
        self.prompt_tokens.labels(view="verifier").inc(report.verifier_prompt_tokens)
        self.prompt_tokens.labels(view="drafter").inc(report.drafter_prompt_tokens)
        for at, count in enumerate(report.accepted_per_position):
            self.per_position.labels(position=str(at + 1)).inc(count)
        if report.drafted:
            self.divergence.observe(report.mean_divergence)

    def engine(self, counts: Any) -> None:
        """Notes what the engine said of itself with an answer."""
        if "drafter_prefill_s" in counts:
            self.prefill.observe(counts["drafter_prefill_s"])
        if "pool_usage" in counts:
            self.pool.set(counts["pool_usage"])

    def aborted(self, mode: str) -> None:
        """Counts a request whose client left, or which failed on the way."""
        self.requests.labels(arm=ARM, mode=mode, outcome="aborted").inc()

    def refused(self, code: str) -> None:
        """Counts a request that was not admitted, by the error's code."""
        self.refusals.labels(code=code).inc()


@functools.cache
def metrics() -> Metrics:
    """This process's metrics, in the registry that vLLM's `/metrics` reads."""
    return Metrics(
        requests=names.REQUESTS.make(),
        refusals=names.REFUSALS.make(),
        tokens=names.TOKENS.make(),
        prompt_tokens=names.PROMPT_TOKENS.make(),
        cached_tokens=names.CACHED_TOKENS.make(),
        per_position=names.ACCEPTED_PER_POSITION.make(),
        divergence=names.DIVERGENCE.make(),
        prefill=names.DRAFTER_PREFILL.make(),
        pool=names.POOL_USAGE.make(multiprocess_mode="mostrecent"),
    )
