"""`asymspec trace show`: a trace's requests, totals and answers in the terminal, or everything as JSON."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from .table import print_table
from .trace_story import print_call

if TYPE_CHECKING:
    from ..trace import Cost, Metrics
    from ..trace.story import Call, Story

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
    """Adds the action."""
    parser = subparsers.add_parser("show", help="requests, totals and answers in the terminal")
    parser.add_argument("files", nargs="+", metavar="FILE", help="traces that belong together")
    parser.add_argument("--json", action="store_true", help="print every count as JSON")
    parser.add_argument("--call", type=int, metavar="N", help="only the answer of this call, whole")
    parser.add_argument("--follow", action="store_true", help="go on as the trace grows, until Ctrl-C")
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
    from ..trace import cost
    from ..trace.story import read_story

    if args.follow:
        from .trace_follow import follow

        if args.json or args.call is not None or len(args.files) > 1:
            raise ConfigurationError("--follow: takes one file, and neither --json nor --call")
        return follow(args.files[0])
    if (args.verifier_params is None) != (args.drafter_params is None):
        raise ConfigurationError("--verifier-params and --drafter-params must be given together")
    story = read_story(*args.files)
    if args.call is not None and not 1 <= args.call <= len(story.calls):
        raise ConfigurationError(f"--call={args.call}: the trace has {len(story.calls)} calls")
    flops = None
    if args.verifier_params is not None:
        flops = cost(story.total, verifier_params=args.verifier_params, drafter_params=args.drafter_params)
    for note in story.notes:
        print(f"note: {note}", file=sys.stderr)
    if args.json:
        print(json.dumps(_as_json(story, flops), indent=2))
    elif args.call is not None:
        print_call(next(call for call in story.calls if call.number == args.call), is_whole=True)
    elif story.num_events:
        _print(story, flops)
    if not story.num_events:
        print(f"{', '.join(args.files)} holds no events", file=sys.stderr)
        return 1
    return 0


def _print(story: Story, flops: Cost | None) -> None:
    rows = [_row(call) for call in story.calls if call.events]  # a view alone is no request
    print_table(_COLUMNS, rows, _total_row(story.total))
    print(_routing_line(story.total))
    if flops is not None:
        print(_flops_line(flops))
    for call in story.calls:
        if call.answer is not None or (call.blocks and call.blocks[0].positions is not None):
            print_call(call, is_whole=False)


def _row(call: Call) -> tuple[str, ...]:
    request = call.request
    mode = (request.mode if request is not None else None) or ""
    if request is not None and request.fallback:
        mode = f"{mode} ({request.fallback})"
    return (
        call.request_id[:8],
        call.arm or "",
        mode,
        call.ending or "(none)",
        *_numbers(call.metrics),
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


def _as_json(story: Story, flops: Cost | None) -> dict[str, Any]:
    data: dict[str, Any] = {
        "total": story.total.summary(),
        "requests": [
            {
                "request_id": call.request_id,
                "number": call.number,
                "arm": call.arm,
                "mode": call.request.mode if call.request is not None else None,
                "fallback": call.request.fallback if call.request is not None else None,
                "ending": call.ending,
                "full_view_tokens": call.full_tokens,
                "compressed_view_tokens": call.compressed_tokens,
                "latency_s": call.latency.known(),
                "num_changed": call.num_changed,
                "answer": call.answer,
                **call.metrics.summary(),
            }
            for call in story.calls
            if call.events
        ],
        "notes": list(story.notes),
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
