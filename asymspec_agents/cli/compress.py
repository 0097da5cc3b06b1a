"""`asymspec compress`: shows what a verifier would read of a file."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, get_args

from ..compress import AutoCompressor, ContentKind, Rendition
from ..errors import MissingDependencyError
from ..tokens import EstimateCounter, TokenCounter, TokenizerCounter

__all__ = ["add_parser", "run"]

_DEFAULT_RATIO = 0.3


def add_parser(subparsers: Any) -> None:
    """Adds the `compress` command to an argparse subparsers object."""
    parser = subparsers.add_parser("compress", help="print a file's compressed form")
    parser.add_argument("file", metavar="FILE", help="a text file, or - for standard input")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--target-tokens", type=_tokens, metavar="N", help="tokens to keep at most")
    size.add_argument(
        "--ratio",
        type=_ratio,
        default=_DEFAULT_RATIO,
        metavar="R",
        help="share of the tokens to keep at most, over 0 and up to 1 (default: %(default)s)",
    )
    parser.add_argument("--query", default="", help="what the reader wants to know")
    parser.add_argument(
        "--kind", choices=("auto", *get_args(ContentKind)), default="auto", help="of content (default: auto)"
    )
    parser.add_argument("--model", metavar="NAME", help="count by this model's tokenizer, not by estimate")
    parser.add_argument("--json", action="store_true", help="print the result and its sizes as JSON")


def run(args: argparse.Namespace) -> int:
    """Exit code 0: the rendition on standard output, a line with kind and sizes on standard error.

    Raises OSError where the file cannot be read, WeightsError where the model cannot be found. Bytes that are
    not UTF-8 are read as U+FFFD.
    """
    data = sys.stdin.buffer.read() if args.file == "-" else Path(args.file).read_bytes()
    text = data.decode("utf-8", "replace")
    counter = _counter(args.model)
    tokens_before = counter.count(text)
    target_tokens = args.target_tokens
    if target_tokens is None:
        target_tokens = int(tokens_before * args.ratio)
    rendition = _compress(text, args.kind, args.query, target_tokens, counter)
    tokens_after = counter.count(rendition.text)
    if args.json:
        result = {
            "kind": rendition.kind,
            "compressor": rendition.compressor,
            "counter": counter.name,
            "tokens_before": tokens_before,
            "tokens_after": tokens_after,
            "target_tokens": target_tokens,
            "text": rendition.text,
        }
        print(json.dumps(result, indent=2))
    else:
        print(rendition.text, end="" if rendition.text.endswith("\n") else "\n")
    print(
        f"{rendition.kind} by {rendition.compressor}: {tokens_before:,} -> {tokens_after:,} tokens "
        f"(target {target_tokens:,}, counted by {counter.name})",
        file=sys.stderr,
    )
    return 0


def _compress(text: str, kind: str, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
    compressor = AutoCompressor()
    if kind == "auto":
        return compressor.compress(text, query=query, target_tokens=target_tokens, counter=counter)
    known: ContentKind = next(name for name in get_args(ContentKind) if name == kind)
    return compressor.compress_as(known, text, query=query, target_tokens=target_tokens, counter=counter)


def _counter(model: str | None) -> TokenCounter:
    if model is None:
        return EstimateCounter()
    try:
        from ..engine.load import load_tokenizer
    except ImportError as error:
        raise MissingDependencyError("transformers", "engine") from error
    from ..weights import resolve

    return TokenizerCounter(load_tokenizer(resolve(model).path))


def _tokens(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text}: must not be negative")
    return number


def _ratio(text: str) -> float:
    number = float(text)
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text}: must be over 0 and at most 1")
    return number
