"""The names of all Prometheus metrics, once: what servers, gateways, clients and the vLLM plugin count.

Source: Prometheus' naming rules (one-word prefix, base units, `_total`). No label holds what a client wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ..errors import MissingDependencyError

__all__ = ["CLIENT", "COMPRESSION", "ENGINE", "GATEWAY", "METRICS", "SERVER", "VLLM", "Metric"]

SECONDS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
SHORT_SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
GATEWAY_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)
NATS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7)  # up to ln 2


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; a counter's name ends in `_total`, a histogram's in its unit."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    def make(self, registry: Any = None, **settings: Any) -> Any:
        """prometheus_client's metric, in that registry or in the process's own."""
        try:
            import prometheus_client
        except ImportError as error:
            raise MissingDependencyError("prometheus_client", "metrics") from error
        if registry is not None:
            settings["registry"] = registry
        if self.kind == "histogram":
            settings["buckets"] = self.buckets
        kinds = {
            "counter": prometheus_client.Counter,
            "gauge": prometheus_client.Gauge,
            "histogram": prometheus_client.Histogram,
        }
        return kinds[self.kind](self.name, self.help, self.labels, **settings)

    @property
    def samples(self) -> tuple[str, ...]:
        """The names that a query may use."""
        if self.kind != "histogram":
            return (self.name,)
        return tuple(self.name + end for end in ("_bucket", "_count", "_sum"))


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(name, "counter", text, labels)


def _histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Metric:
    return Metric(name, "histogram", text, labels, buckets)


REQUESTS = _counter("asymspec_requests_total", "Requests by how they ended.", "arm", "mode", "outcome")
TOKENS = _counter("asymspec_tokens_total", "Proposals (drafted) and emitted tokens by origin.", "kind")
PROMPT_TOKENS = _counter("asymspec_prompt_tokens_total", "Tokens of prompts by reader.", "view")
CACHED_TOKENS = _counter(
    "asymspec_cached_prompt_tokens_total", "Prompt tokens found in a prefix cache.", "view"
)
DIVERGENCE = _histogram(
    "asymspec_divergence_nats", "Mean divergence of the drafter's two views, by request.", NATS
)
REFUSALS = _counter("asymspec_refusals_total", "Requests not admitted, by the error's code.", "code")
ACCEPTED_PER_POSITION = _counter(
    "asymspec_accepted_per_position_total", "Blocks that accepted their first, second, … token.", "position"
)

MODE_FALLBACKS = _counter("asymspec_mode_fallbacks_total", "Requests run otherwise than they asked.")
FORWARDED_TOKENS = _counter(
    "asymspec_forwarded_tokens_total", "Positions that were computed, prompts included.", "view"
)
BLOCKS = _counter("asymspec_blocks_total", "Speculation blocks.")
DRAFTED_PER_POSITION = _counter(
    "asymspec_drafted_per_position_total", "Blocks that proposed a first, second, … token.", "position"
)
ANSWER_TOKENS = _counter("asymspec_answer_tokens_total", "Tokens of answers, after trimming.")
POSITION_DIVERGENCE = _histogram(
    "asymspec_position_divergence_nats", "Divergence of every position that was judged.", NATS
)
QUEUE = _histogram("asymspec_queue_seconds", "Waiting, in a queue and for the engine.", SECONDS)
PREFILL = _histogram("asymspec_prefill_seconds", "Reading the prompts, by all who read them.", SECONDS)
DECODE = _histogram("asymspec_decode_seconds", "From the prompts' end to the answer's.", SECONDS)
FIRST_TOKEN = _histogram("asymspec_time_to_first_token_seconds", "Decoding's begin to a token.", SECONDS)
DURATION = _histogram("asymspec_request_duration_seconds", "Decoding's begin to the answer's end.", SECONDS)
ERRORS = _counter("asymspec_errors_total", "Requests that ended without an answer.", "type")

ENGINE = (
    REQUESTS,
    MODE_FALLBACKS,
    PROMPT_TOKENS,
    CACHED_TOKENS,
    FORWARDED_TOKENS,
    BLOCKS,
    TOKENS,
    DRAFTED_PER_POSITION,
    ACCEPTED_PER_POSITION,
    ANSWER_TOKENS,
    DIVERGENCE,
    POSITION_DIVERGENCE,
    QUEUE,
    PREFILL,
    DECODE,
    FIRST_TOKEN,
    DURATION,
    ERRORS,
)
"""What decoding counts: `asymspec serve`, and a LocalBackend with a MetricsRecorder."""

VIEWS = _counter("asymspec_compression_requests_total", "Calls for which both views were made.")
FULL_TOKENS = _counter("asymspec_compression_input_tokens_total", "Tokens of full views, by estimate.")
COMPRESSED_TOKENS = _counter(
    "asymspec_compression_output_tokens_total", "Tokens of compressed views, by estimate."
)
DEGRADED = _counter("asymspec_compression_degraded_parts_total", "Parts shown by a fallback's rendition.")
COMPRESSOR_FALLBACKS = _counter(
    "asymspec_compression_fallbacks_total", "Compressors that failed or were too slow.", "reason"
)
COMPRESS = _histogram("asymspec_compression_duration_seconds", "Making both views.", SHORT_SECONDS)
ROUTE_FAILURES = _counter(
    "asymspec_route_failures_total", "Calls sent with the full view, as routing failed.", "type"
)
SUMMARIES = _counter("asymspec_summaries_total", "Summaries that a model wrote, or failed to.")
SUMMARY_TOKENS = _counter("asymspec_summary_tokens_total", "Tokens that summaries cost.", "kind")

COMPRESSION = (
    VIEWS,
    FULL_TOKENS,
    COMPRESSED_TOKENS,
    DEGRADED,
    COMPRESSOR_FALLBACKS,
    COMPRESS,
    ROUTE_FAILURES,
    SUMMARIES,
    SUMMARY_TOKENS,
)
"""What routers count, in a client or in a gateway."""

CLIENT_REQUESTS = _counter(
    "asymspec_client_requests_total", "Calls of servers by how they ended.", "arm", "mode", "outcome"
)
CLIENT_ERRORS = _counter("asymspec_client_errors_total", "Calls that brought no answer.", "type")
CLIENT_DURATION = _histogram(
    "asymspec_client_request_duration_seconds", "From a call to its answer's end.", SECONDS
)
CLIENT_FIRST_TOKEN = _histogram(
    "asymspec_client_time_to_first_token_seconds", "From a streamed call to its first text.", SECONDS
)
CLIENT_PROMPT_TOKENS = _counter(
    "asymspec_client_prompt_tokens_total", "Tokens of prompts by reader, as servers told.", "view"
)
CLIENT_CACHED_TOKENS = _counter(
    "asymspec_client_cached_prompt_tokens_total", "Prompt tokens that servers found in caches.", "view"
)
CLIENT_TOKENS = _counter(
    "asymspec_client_tokens_total", "Proposals and emitted tokens, as servers told.", "kind"
)
CLIENT_ANSWER_TOKENS = _counter("asymspec_client_answer_tokens_total", "Tokens of answers received.")

CLIENT = (
    CLIENT_REQUESTS,
    CLIENT_ERRORS,
    CLIENT_DURATION,
    CLIENT_FIRST_TOKEN,
    CLIENT_PROMPT_TOKENS,
    CLIENT_CACHED_TOKENS,
    CLIENT_TOKENS,
    CLIENT_ANSWER_TOKENS,
)
"""What an HTTPBackend counts."""

SERVER_OPEN = Metric("asymspec_server_open_requests", "gauge", "Requests that wait or are decoded.")

SERVER = (REFUSALS, SERVER_OPEN)
"""What `asymspec serve` counts beside decoding."""

GATEWAY_REQUESTS = _counter(
    "asymspec_gateway_requests_total", "Requests by path and status.", "path", "status"
)
GATEWAY_DURATION = _histogram(
    "asymspec_gateway_request_duration_seconds",
    "From a request's head to its answer's end.",
    GATEWAY_SECONDS,
    "path",
)
GATEWAY_OPEN = Metric("asymspec_gateway_open_requests", "gauge", "Requests on their way.")
GATEWAY_VIEWS = _counter("asymspec_gateway_views_total", "Forwarded calls by what went upstream.", "view")
GATEWAY_FAILURES = _counter(
    "asymspec_gateway_upstream_failures_total", "Calls without a whole answer.", "code"
)
GATEWAY_MISSING = _counter(
    "asymspec_gateway_missing_reports_total", "AsymSpec calls answered without a report."
)
GATEWAY_TOKENS = _counter("asymspec_gateway_tokens_total", "Tokens as upstreams counted them.", "kind")

GATEWAY = (
    GATEWAY_REQUESTS,
    GATEWAY_DURATION,
    GATEWAY_OPEN,
    GATEWAY_VIEWS,
    GATEWAY_FAILURES,
    GATEWAY_MISSING,
    GATEWAY_TOKENS,
)
"""What `asymspec gateway` counts beside its routers."""

DRAFTER_PREFILL = _histogram(
    "asymspec_drafter_prefill_seconds", "Time until the drafter had read a request's views.", SECONDS
)
POOL_USAGE = Metric(
    "asymspec_pool_usage_ratio", "gauge", "Share of the drafter's pool in use when a request last ended."
)

VLLM = (
    REQUESTS,
    REFUSALS,
    TOKENS,
    PROMPT_TOKENS,
    CACHED_TOKENS,
    ACCEPTED_PER_POSITION,
    DIVERGENCE,
    DRAFTER_PREFILL,
    POOL_USAGE,
)
"""What the vLLM plugin counts, in vLLM's own `/metrics`."""

METRICS = {metric.name: metric for metric in (*ENGINE, *COMPRESSION, *CLIENT, *SERVER, *GATEWAY, *VLLM)}
"""All of them by name."""
