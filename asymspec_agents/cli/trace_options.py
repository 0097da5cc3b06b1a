"""The options of a command that records a trace of what it decodes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import ConfigurationError, MissingDependencyError

if TYPE_CHECKING:
    from ..trace import JSONLRecorder
    from ..trace.otel import OTelRecorder

__all__ = ["add_otel_options", "add_trace_options", "otel_recorder", "trace_recorder"]

MIB = 1024**2


def add_trace_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options, as a group of their own."""
    trace = parser.add_argument_group("trace")
    trace.add_argument("--trace", type=Path, metavar="FILE", help="append one JSON line per event")
    trace.add_argument(
        "--trace-level",
        choices=("off", "summary", "detail"),
        help="off; counts of each block (summary, the default); every position's probabilities (detail)",
    )
    trace.add_argument(
        "--trace-alternatives", type=int, metavar="N", help="each model's likeliest tokens, at detail (5)"
    )
    trace.add_argument("--trace-content", action="store_true", help="record answers and token ids as well")
    trace.add_argument(
        "--trace-max-mib", type=float, metavar="N", help="begin a new file beyond this size, and keep five"
    )


def trace_recorder(args: argparse.Namespace) -> JSONLRecorder | None:
    """The recorder asked for. Raises ConfigurationError for options without a file, or out of range."""
    from ..trace import JSONLRecorder, RecordLimits

    given = [args.trace_level, args.trace_alternatives, args.trace_content or None, args.trace_max_mib]
    if args.trace is None and any(option is not None for option in given):
        raise ConfigurationError("--trace=FILE is missing: the other --trace options say how it is written")
    if args.trace_alternatives is not None and args.trace_level != "detail":
        raise ConfigurationError("--trace-alternatives: needs --trace-level=detail")
    if args.trace is None or args.trace_level == "off":
        return None
    return JSONLRecorder(
        args.trace,
        captures_content=args.trace_content,
        level=args.trace_level or "summary",
        num_alternatives=5 if args.trace_alternatives is None else args.trace_alternatives,
        limits=RecordLimits(
            max_file_bytes=None if args.trace_max_mib is None else int(args.trace_max_mib * MIB)
        ),
    )


def add_otel_options(parser: argparse.ArgumentParser, service: str) -> None:
    """Adds the options of OpenTelemetry; `service` is the name that its spans get by default."""
    otel = parser.add_argument_group("OpenTelemetry")
    otel.add_argument("--otlp", metavar="URL", help="export a span per call, by OTLP over HTTP; no contents")
    otel.add_argument(
        "--otlp-service", default=service, metavar="NAME", help="service.name (default: %(default)s)"
    )


def otel_recorder(args: argparse.Namespace) -> OTelRecorder | None:
    """The recorder asked for. Raises MissingDependencyError without the extra `otel`."""
    if args.otlp is None:
        return None
    try:
        from ..trace.otel import OTelRecorder
    except ImportError as error:
        raise MissingDependencyError(error.name or "opentelemetry_sdk", "otel") from error
    return OTelRecorder.over_http(args.otlp, service=args.otlp_service)
