"""`asymspec compress`: shows what a verifier would read of a text, or of a whole conversation."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, get_args

from ..compress import AutoCompressor, ContentKind, Rendition
from ..compress.base import Compressor
from ..compress.headtail import HeadTail
from ..config import from_env
from ..errors import ConfigurationError, MissingDependencyError
from ..tokens import EstimateCounter, TokenCounter, TokenizerCounter
from ..views import ViewPolicy
from ..views.fitting import PromptCounter
from .compress_conversation import show_conversation
from .compress_diff import diff, rendered
from .compress_input import conversation_in, read_text
from .compress_narrator import Narrator

__all__ = ["add_parser", "run"]

_DEFAULT_RATIO = 0.3


def add_parser(subparsers: Any) -> None:
    """Adds the `compress` command to an argparse subparsers object."""
    parser = subparsers.add_parser(
        "compress",
        help="print a file's compressed form",
        description="Prints the compressed form of a text, or the compressed view of a conversation: a JSON "
        'object with "messages" (and "tools").',
    )
    parser.add_argument("file", metavar="FILE", help="a text or conversation, or - for standard input")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--target-tokens", type=_tokens, metavar="N", help="tokens to keep of a text at most")
    size.add_argument(
        "--ratio",
        type=_ratio,
        default=_DEFAULT_RATIO,
        metavar="R",
        help="share of a text's tokens to keep at most, over 0 and up to 1 (default: %(default)s)",
    )
    parser.add_argument("--query", default="", help="what the reader of a text wants to know")
    parser.add_argument(
        "--kind",
        choices=("auto", *get_args(ContentKind)),
        default="auto",
        help="of content (default: auto); any other takes a conversation as a text",
    )
    parser.add_argument(
        "--compressor",
        choices=("auto", "headtail", "llmlingua"),
        default="auto",
        help="what shortens texts (default: auto, by kind of content; llmlingua: the same, but prose by "
        "LLMLingua-2)",
    )
    parser.add_argument(
        "--compressor-model",
        metavar="NAME",
        help="the checkpoint of --compressor llmlingua: a folder, or a hub name such as "
        "microsoft/llmlingua-2-xlm-roberta-large-meetingbank",
    )
    parser.add_argument("--max-verifier-tokens", type=_positive, metavar="N", help="a conversation's budget")
    parser.add_argument(
        "--keep-last", type=_tokens, metavar="N", help="turns of a conversation to keep verbatim"
    )
    parser.add_argument(
        "--model",
        metavar="NAME",
        help="count by this model's tokenizer and chat template, not by estimate",
    )
    parser.add_argument("--diff", action="store_true", help="show what was kept, dropped and added")
    parser.add_argument("--json", action="store_true", help="print the result and its sizes as JSON")


def run(args: argparse.Namespace) -> int:
    """Exit code 0: the compressed form or its difference on standard output, sizes on standard error.

    Colours are for terminals only, and not where NO_COLOR is set. Raises OSError where the file cannot be
    read, MessageError where it is no text or a malformed conversation, WeightsError where a model cannot be
    found, ConfigurationError for options that do not fit what the file holds.
    """
    narrator = Narrator(sys.stderr)
    try:
        return _run(args, narrator)
    finally:
        narrator.close()


def _run(args: argparse.Namespace, narrator: Narrator) -> int:
    text = read_text(args.file)
    compressor = _compressor(args, narrator)
    tokenizer = _tokenizer(args.model)
    counter: TokenCounter = EstimateCounter() if tokenizer is None else TokenizerCounter(tokenizer)
    colour = sys.stdout.isatty() and not from_env().no_color
    conversation = conversation_in(text) if args.kind == "auto" else None
    if conversation is not None:
        _refuse(args, ("target_tokens", "query"), "a text's; this is a conversation (--kind json: a text)")
        return show_conversation(
            conversation,
            _policy(args),
            compressor=compressor,
            counter=counter,
            prompt_counter=_prompt_counter(tokenizer),
            as_json=args.json,
            as_diff=args.diff,
            colour=colour,
        )
    _refuse(args, ("max_verifier_tokens", "keep_last"), 'a conversation\'s: a JSON object with "messages"')
    return _show_text(args, text, compressor, counter, colour)


def _show_text(
    args: argparse.Namespace, text: str, compressor: Compressor, counter: TokenCounter, colour: bool
) -> int:
    tokens_before = counter.count(text)
    target_tokens = args.target_tokens
    if target_tokens is None:
        target_tokens = int(tokens_before * args.ratio)
    rendition = _compress(compressor, text, args.kind, args.query, target_tokens, counter)
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
        if args.diff:
            result["diff"] = [[piece.fate, piece.text] for piece in diff(text, rendition.text)]
        print(json.dumps(result, indent=2))
    else:
        shown = rendered(diff(text, rendition.text), colour=colour) if args.diff else rendition.text
        print(shown, end="" if shown.endswith("\n") else "\n")
    print(
        f"{rendition.kind} by {rendition.compressor}: {tokens_before:,} -> {tokens_after:,} tokens "
        f"(target {target_tokens:,}, counted by {counter.name})",
        file=sys.stderr,
    )
    return 0


def _compress(
    compressor: Compressor, text: str, kind: str, query: str, target_tokens: int, counter: TokenCounter
) -> Rendition:
    if kind == "auto" or not isinstance(compressor, AutoCompressor):
        return compressor.compress(text, query=query, target_tokens=target_tokens, counter=counter)
    known: ContentKind = next(name for name in get_args(ContentKind) if name == kind)
    return compressor.compress_as(known, text, query=query, target_tokens=target_tokens, counter=counter)


def _compressor(args: argparse.Namespace, narrator: Narrator) -> Compressor:
    if (args.compressor == "llmlingua") != (args.compressor_model is not None):
        raise ConfigurationError(
            "--compressor llmlingua and --compressor-model NAME (its checkpoint) go together; --model says "
            "whose tokens are counted"
        )
    if args.compressor == "headtail":
        return HeadTail()
    if args.compressor == "auto":
        return AutoCompressor()
    from ..compress.llmlingua import LLMLingua2

    # No limit of time: who waits here sees how far it is, and can stop it.
    return AutoCompressor(prose=LLMLingua2.load(args.compressor_model, timeout_s=None, recorder=narrator))


def _policy(args: argparse.Namespace) -> ViewPolicy:
    given = {"max_verifier_tokens": args.max_verifier_tokens, "keep_last": args.keep_last}
    chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if args.compressor == "llmlingua":
        chosen["compress_timeout_s"] = None  # as for a text
    return ViewPolicy(ratio=min(args.ratio, 0.99), **chosen)  # a policy always compresses


def _refuse(args: argparse.Namespace, names: tuple[str, ...], whose: str) -> None:
    for name in names:
        if getattr(args, name) not in (None, ""):
            raise ConfigurationError(f"--{name.replace('_', '-')} is {whose}")


def _tokenizer(model: str | None) -> Any:
    if model is None:
        return None
    try:
        from ..engine.load import load_tokenizer
    except ImportError as error:
        raise MissingDependencyError("transformers", "engine") from error
    from ..weights import resolve

    return load_tokenizer(resolve(model).path)


def _prompt_counter(tokenizer: Any) -> PromptCounter | None:
    if tokenizer is None:
        return None
    from ..engine.chat import ChatTemplate

    template = ChatTemplate(tokenizer)
    return lambda messages, tools: len(template.ids(messages, tools))


def _tokens(text: str) -> int:
    return _whole_number(text, 0)


def _positive(text: str) -> int:
    return _whole_number(text, 1)


def _whole_number(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a whole number of at least {least}")
    return number


def _ratio(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise argparse.ArgumentTypeError(f"{text!r}: must be a number over 0 and at most 1")
    return number
