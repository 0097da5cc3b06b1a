"""The options of `run` that say which models answer, and which one grades."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymspec_agents.config import from_env
from asymspec_agents.errors import ConfigurationError

if TYPE_CHECKING:
    from ..suite import Judge
    from ..systems import System, SystemOptions

__all__ = ["add_judge", "add_system", "has_judge", "open_judge", "system_options"]


def add_system(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the system."""
    here = parser.add_argument_group("models in this process")
    here.add_argument("--verifier", metavar="MODEL", help="a preset, a hub name or a folder")
    here.add_argument("--drafter", metavar="MODEL", help="likewise")
    here.add_argument("--dtype", help="number type of the weights (default: bfloat16)")
    here.add_argument("--device", help="where they run (default: a GPU where there is one)")
    here.add_argument(
        "--vocab-map", metavar="auto|FILE", help="for a drafter of another tokenizer family: its map"
    )
    there = parser.add_argument_group("a server in their place")
    there.add_argument("--url", help="an AsymSpec server, or any OpenAI-compatible one")
    there.add_argument("--api-key", metavar="KEY", help="its key (default: $ASYMSPEC_API_KEY)")
    there.add_argument("--model", metavar="NAME", help="the verifier's name there")
    there.add_argument("--drafter-model", metavar="NAME", help="the drafter's name, where it is served alone")
    there.add_argument("--drafter-url", metavar="URL", help="a server of any kind for the drafter alone")
    there.add_argument("--drafter-api-key", metavar="KEY", help="its key (default: none)")
    there.add_argument("--verifier-params", type=_count, metavar="N", help="its parameters, such as 32e9")
    there.add_argument("--drafter-params", type=_count, metavar="N", help="the drafter's")
    for reader in ("verifier", "drafter"):
        flag, what = f"--{reader}-sees-images", f"the {reader} is given images, not the text in their place"
        there.add_argument(flag, action="store_true", default=None, help=what)
    there.add_argument("--tokenizer", metavar="MODEL", help="measures the views (default: an estimate)")
    there.add_argument("--timeout-s", type=float, metavar="S", help="how long a silent server is waited for")
    views = parser.add_argument_group("what makes views")
    views.add_argument("--llmlingua", metavar="MODEL", help="LLMLingua-2's checkpoint, for views by it")


def add_judge(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the judge."""
    judge = parser.add_argument_group("the judge, for suites that are graded by a model")
    judge.add_argument("--judge-url", metavar="URL", help="an OpenAI-compatible server that grades")
    judge.add_argument("--judge-model", metavar="NAME", help="the judge's name there, or with --judge local")
    judge.add_argument("--judge-api-key", metavar="KEY", help="the key of --judge-url")
    judge.add_argument(
        "--judge",
        choices=("local",),
        help="grade in this process: --judge-model, or else the verifier itself",
    )


def _count(text: str) -> int:
    try:
        return int(float(text))
    except (ValueError, OverflowError):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number") from None


def system_options(args: argparse.Namespace) -> SystemOptions:
    """The options of the system, checked. Raises ConfigurationError."""
    from ..systems import SystemOptions

    names: tuple[str, ...] = ("verifier", "drafter", "dtype", "device", "vocab_map")
    names += ("url", "api_key", "model", "drafter_model", "drafter_url", "drafter_api_key")
    names += ("verifier_sees_images", "drafter_sees_images")
    names += ("verifier_params", "drafter_params", "tokenizer", "timeout_s", "llmlingua")
    given: dict[str, Any] = {name: getattr(args, name) for name in names if getattr(args, name) is not None}
    if "url" in given and "api_key" not in given:
        given["api_key"] = from_env().api_key
    return SystemOptions(**given)


def has_judge(args: argparse.Namespace) -> bool:
    """Whether a judge is named. Raises ConfigurationError where its options don't fit together."""
    if args.judge_url and args.judge:
        raise ConfigurationError("--judge local and --judge-url are two judges; name one")
    if args.judge_model and not (args.judge_url or args.judge):
        raise ConfigurationError(
            "--judge-model is of a server, or loaded here: give --judge-url or --judge local"
        )
    if args.judge_api_key and not args.judge_url:
        raise ConfigurationError("--judge-api-key is of a server: give --judge-url")
    return bool(args.judge_url or args.judge)


@contextlib.contextmanager
def open_judge(args: argparse.Namespace, folder: Path, system: System | None) -> Iterator[Judge | None]:
    """The judge that is named, until the end of the context; None where none is."""
    from .. import judging

    if not has_judge(args):
        yield None
        return
    if args.judge and not args.judge_model:
        if system is None:
            raise ConfigurationError("--judge local with --rescore loads no verifier; add --judge-model")
        print("note: the verifier grades its own answers; --judge-model names another judge", file=sys.stderr)
        yield judging.CachedJudge(system.plain("verifier"), folder / judging.FILE_NAME)
        return
    options = judging.JudgeOptions(url=args.judge_url, model=args.judge_model, api_key=args.judge_api_key)
    judge = judging.open_judge(options, folder)
    try:
        yield judge
    finally:
        judge.close()
