"""`asymspec trace FILE`: a trace's requests and totals as a table, or everything as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from .table import print_table

if TYPE_CHECKING:
    from ..trace import Cost, Metrics, RequestMetrics

__all__ = ["add_parser", "run"]

_COLUMNS = (
    "request",
    "arm",
    "mode",
    "ending",
    "verifier read",
    "drafter read",
    "tokens",
    "blocks",
    "accepted",
    "per block",
    "divergence",
    "seconds",
)


def add_parser(subparsers: Any) -> None:
    """Adds the `trace` command."""
    parser = subparsers.add_parser("trace", help="show the requests and totals of a trace file")
    parser.add_argument("file", help="a trace in JSON lines, as JSONLRecorder writes it")
    parser.add_argument("--json", action="store_true", help="print every count as JSON")
    parser.add_argument(
        "--verifier-params", type=_count, metavar="N", help="parameters of the verifier, such as 1.5e9"
    )
    parser.add_argument("--drafter-params", type=_count, metavar="N", help="parameters of the drafter")


def _count(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def run(args: argparse.Namespace) -> int:
    """Prints the trace; notes about broken lines go to stderr. Returns 0, or 1 where no event was found."""
    from ..trace import cost, measure, measure_requests, read_trace

    if (args.verifier_params is None) != (args.drafter_params is None):
        raise ConfigurationError("--verifier-params and --drafter-params must be given together")
    trace = read_trace(args.file)
    total, requests = measure(trace.events), measure_requests(trace.events)
    flops = None
    if args.verifier_params is not None:
        flops = cost(total, verifier_params=args.verifier_params, drafter_params=args.drafter_params)
    for note in trace.notes:
        print(f"note: {note}", file=sys.stderr)
    if args.json:
        print(json.dumps(_as_json(total, requests, flops), indent=2))
    elif trace.events:
        print_table(_COLUMNS, [_row(request) for request in requests], _total_row(total))
        print(_routing_line(total))
        if flops is not None:
            print(_flops_line(flops))
    if not trace.events:
        print(f"{args.file} holds no events", file=sys.stderr)
        return 1
    return 0


def _row(request: RequestMetrics) -> tuple[str, ...]:
    mode = request.mode or ""
    if request.fallback:
        mode = f"{mode} ({request.fallback})"
    return (
        request.request_id[:8],
        request.arm or "",
        mode,
        request.ending or "(none)",
        *_numbers(request.metrics),
    )


def _total_row(total: Metrics) -> tuple[str, ...]:
    return ("total", f"requests: {total.num_requests}", "", f"errors: {total.num_errors}", *_numbers(total))


def _numbers(metrics: Metrics) -> tuple[str, ...]:
    prompt, cached = metrics.prompt_tokens, metrics.cached_tokens
    return (
        _read(prompt.verifier, cached.verifier),
        _read(prompt.drafter, cached.drafter),
        f"{metrics.num_response_tokens:,}",
        f"{metrics.num_blocks:,}",
        _ratio(metrics.acceptance_rate, ".0%"),
        _ratio(metrics.mean_accepted_length, ".2f"),
        _ratio(metrics.mean_divergence, ".3f"),
        f"{float(metrics.elapsed_s):.2f}",
    )


def _read(num_tokens: int, num_cached: int) -> str:
    return f"{num_tokens:,} ({num_cached:,} cached)" if num_cached else f"{num_tokens:,}"


def _ratio(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def _routing_line(total: Metrics) -> str:
    per_position = ", ".join(f"{rate:.0%}" for rate in total.acceptance_per_position) or "-"
    summaries = ""
    if total.num_summaries:
        read, written = total.summary_prompt_tokens, total.summary_completion_tokens
        summaries = f"; summaries: {total.num_summaries}, {read:,} tokens read, {written:,} written"
    return (
        f"acceptance by position: {per_position}; fallbacks: {total.num_fallbacks}; "
        f"views routed: {total.num_views}, {total.full_tokens:,} tokens to {total.compressed_tokens:,}; "
        f"compressions failed: {total.num_degraded}{summaries}"
    )


def _flops_line(flops: Cost) -> str:
    return (
        f"FLOPs: prefill {flops.prefill_flops:.3g}, {_ratio(flops.prefill_ratio, '.2f')}× Ceiling's; "
        f"all {flops.prefill_flops + flops.decode_flops:.3g}, {_ratio(flops.total_ratio, '.2f')}× Ceiling's"
    )


def _as_json(total: Metrics, requests: tuple[RequestMetrics, ...], flops: Cost | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "total": total.summary(),
        "requests": [
            {
                "request_id": request.request_id,
                "arm": request.arm,
                "mode": request.mode,
                "fallback": request.fallback,
                "ending": request.ending,
                **request.metrics.summary(),
            }
            for request in requests
        ],
    }
    if flops is not None:
        data["flops"] = {
            "prefill": flops.prefill_flops,
            "decode": flops.decode_flops,
            "ceiling_prefill": flops.ceiling_prefill_flops,
            "ceiling_decode": flops.ceiling_decode_flops,
            "prefill_ratio": flops.prefill_ratio,
            "total_ratio": flops.total_ratio,
        }
    return data
