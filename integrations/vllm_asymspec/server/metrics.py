"""Counters of AsymSpec requests in vLLM's `/metrics`, beside vLLM's own."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

from asymspec_agents.protocol import AsymSpecReport

__all__ = ["Metrics", "metrics"]

DIVERGENCE_BUCKETS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7)  # nats, up to ln 2
PREFILL_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)


@dataclass(frozen=True, slots=True)
class Metrics:
    """prometheus_client's metrics, one set a process."""

    requests: Any
    refusals: Any
    tokens: Any
    prompt_tokens: Any
    cached_tokens: Any
    divergence: Any
    prefill: Any
    pool: Any

    def finished(self, report: AsymSpecReport) -> None:
        """Counts an answer that is whole."""
        self.requests.labels(outcome="finished", mode=report.mode).inc()
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
        self.requests.labels(outcome="aborted", mode=mode).inc()

    def refused(self, code: str) -> None:
        """Counts a request that was not admitted, by the error's code."""
        self.refusals.labels(code=code).inc()


@functools.cache
def metrics() -> Metrics:
    """This process's metrics, in the registry that vLLM's `/metrics` reads."""
    from prometheus_client import Counter, Gauge, Histogram

    return Metrics(
        requests=Counter(
            "asymspec_requests_total", "AsymSpec requests by how they ended.", ("outcome", "mode")
        ),
        refusals=Counter("asymspec_refusals_total", "AsymSpec requests not admitted.", ("code",)),
        tokens=Counter(
            "asymspec_tokens_total", "Proposals (drafted) and emitted tokens by origin.", ("kind",)
        ),
        prompt_tokens=Counter("asymspec_prompt_tokens_total", "Tokens of prompts by reader.", ("view",)),
        cached_tokens=Counter(
            "asymspec_cached_prompt_tokens_total", "Prompt tokens found in a prefix cache.", ("view",)
        ),
        divergence=Histogram(
            "asymspec_divergence_nats",
            "Mean divergence of the drafter's two views, by request.",
            buckets=DIVERGENCE_BUCKETS,
        ),
        prefill=Histogram(
            "asymspec_drafter_prefill_seconds",
            "Time until the drafter had read a request's views.",
            buckets=PREFILL_BUCKETS,
        ),
        pool=Gauge(
            "asymspec_pool_usage_ratio",
            "Share of the drafter's pool in use when a request last ended.",
            multiprocess_mode="mostrecent",
        ),
    )
