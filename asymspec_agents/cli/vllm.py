"""`asymspec vllm`: vLLM's server with AsymSpec in one line, and the tool that pads a drafter's vocabulary."""

from __future__ import annotations

import argparse
import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..config import environment
from ..errors import MissingDependencyError
from ..weights import PRESETS, resolve, show_progress

__all__ = ["add_parser", "run"]

MIB = 1024**2
NO_PREFIX = "\0"  # no argument begins with it: all that follows is taken as it stands

SERVE_HELP = """\
Starts vLLM's own OpenAI-compatible server with the AsymSpec plugin. Every flag of `vllm serve` may follow and
is passed on; --help=all shows vLLM's. Requests without an `asymspec` object are answered as by plain vLLM.

Agents that send tools need two of vLLM's flags, as with plain vLLM: --enable-auto-tool-choice and
--tool-call-parser NAME (hermes for Qwen2.5 and Qwen3). Thinking models need --reasoning-parser NAME.
"""

FIRST_RUNNER = (
    "asymspec: verifier and drafter have different numbers of rows of logits, so vLLM serves them on its "
    "first model runner, without asynchronous scheduling; a drafter padded by `asymspec vllm pad-drafter` "
    "needs neither"
)


def add_parser(subparsers: Any) -> None:
    """Adds the `vllm` command to an argparse subparsers object."""
    parser = subparsers.add_parser("vllm", help="serve with vLLM, and prepare models for it")
    commands = parser.add_subparsers(dest="vllm_command", required=True, metavar="command")
    serve = commands.add_parser(
        "serve", help="vLLM's server with AsymSpec", add_help=False, prefix_chars=NO_PREFIX
    )
    serve.add_argument("arguments", nargs=argparse.REMAINDER)
    pad = commands.add_parser("pad-drafter", help="copy a drafter with another model's vocabulary size")
    pad.add_argument("drafter", help="preset, folder or hub name")
    pad.add_argument("folder", type=Path, help="new folder for the copy")
    size = pad.add_mutually_exclusive_group(required=True)
    size.add_argument("--like", metavar="VERIFIER", help="the model whose vocabulary size to take")
    size.add_argument("--vocab-size", type=int, metavar="N", help="the size itself")


def run(args: argparse.Namespace) -> int:
    """Exit code 0; `serve` becomes vLLM's process and does not return."""
    if args.vllm_command == "pad-drafter":
        return _pad(args)
    return _serve(args.arguments)


def _serve_parser() -> argparse.ArgumentParser:
    from vllm_asymspec.config import PluginConfig

    defaults = PluginConfig()
    parser = argparse.ArgumentParser(
        prog="asymspec vllm serve",
        usage="asymspec vllm serve VERIFIER --drafter DRAFTER [any flag of vllm serve]",
        description=SERVE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--drafter", required=True, metavar="MODEL", help="preset, folder or hub name")
    parser.add_argument(
        "--vocab-map",
        metavar="MAP",
        help='lets a drafter of another family take part: "auto", or a file of `asymspec vocab build`',
    )
    parser.add_argument(
        "--num-draft-tokens",
        type=int,
        default=2,
        metavar="K",
        help="the most drafts of a block; requests may ask for fewer (default: %(default)s)",
    )
    parser.add_argument(
        "--max-full-len", type=int, metavar="N", help="longest full view with its answer, in tokens"
    )
    parser.add_argument(
        "--pool-fraction",
        type=float,
        metavar="F",
        help=f"the drafter's share of the memory for keys and values (default: {defaults.pool_fraction})",
    )
    parser.add_argument("--pool-mib", type=int, metavar="N", help="the drafter's memory itself, on each rank")
    parser.add_argument(
        "--prefill-tokens",
        type=int,
        metavar="N",
        help=f"tokens of full views read in a step while others decode (default: {defaults.prefill_tokens})",
    )
    parser.add_argument(
        "--max-asymspec-requests", type=int, metavar="N", help="AsymSpec requests at a time (default: 64)"
    )
    parser.add_argument(
        "--max-images",
        type=int,
        metavar="N",
        help=f"images of a request that a drafter which sees is shown (default: {defaults.max_images})",
    )
    parser.add_argument(
        "--max-image-pixels",
        type=int,
        metavar="N",
        help=f"width times height of each (default: {defaults.max_image_pixels:,})",
    )
    parser.add_argument(
        "--print-command", action="store_true", help="print the long form instead, to be started by yourself"
    )
    return parser


def _serve(arguments: Sequence[str]) -> int:
    parser = _serve_parser()
    if {"-h", "--help"} & {*arguments}:
        parser.print_help()
        return 0
    _check_installed()
    from vllm_asymspec.distribution import is_cpu_build
    from vllm_asymspec.environment import server_environment
    from vllm_asymspec.launch import CPU_MEMORY_SHARE, Launch, is_cpu_memory_set
    from vllm_asymspec.vocabularies import Vocabularies

    if any(argument.startswith("--help=") for argument in arguments):
        return _become(["serve", *arguments], environment())
    if not arguments or arguments[0].startswith("-"):
        parser.error("name the verifier first")
    verifier, *rest = arguments
    options, flags = parser.parse_known_args(rest)
    settings = {
        "max_full_len": options.max_full_len,
        "pool_fraction": options.pool_fraction,
        "pool_bytes": None if options.pool_mib is None else options.pool_mib * MIB,
        "prefill_tokens": options.prefill_tokens,
        "max_requests": options.max_asymspec_requests,
        "max_images": options.max_images,
        "max_image_pixels": options.max_image_pixels,
    }
    large, small = _named(verifier), _named(options.drafter)
    has_default_memory = is_cpu_build() and not is_cpu_memory_set(environment())
    vocabularies = Vocabularies.of(large.place, small.place, options.vocab_map)
    if vocabularies.needs_first_runner:
        print(FIRST_RUNNER, file=sys.stderr)
    launch = Launch(
        verifier=large.place,
        drafter=small.place,
        num_draft_tokens=options.num_draft_tokens,
        settings={name: value for name, value in settings.items() if value is not None},
        served_name=None if large.place == large.name else large.name,
        memory_share=CPU_MEMORY_SHARE if has_default_memory else None,
        arguments=flags,
        vocabularies=vocabularies,
    )
    variables = server_environment(environment())
    if options.print_command:
        print(_command_line(launch.vllm_arguments(), variables))
        return 0
    return _become(launch.vllm_arguments(), variables)


def _command_line(arguments: Sequence[str], variables: Mapping[str, str]) -> str:
    """The line for a shell: the variables that differ from this process's, and vLLM's own command."""
    given = environment()
    own = [f"{name}={value}" for name, value in variables.items() if given.get(name) != value]
    return shlex.join(["env", *own, sys.executable, "-m", "vllm_asymspec", *arguments])


def _check_installed() -> None:
    if importlib.util.find_spec("vllm") is None:
        raise MissingDependencyError("vllm", "vllm")


def _become(arguments: Sequence[str], variables: dict[str, str]) -> int:
    """Turns this process into vLLM's command: libraries can only be preloaded at a process's start."""
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, "-m", "vllm_asymspec", *arguments], variables)


@dataclass(frozen=True, slots=True)
class _Model:
    """A model as the user names it, and as vLLM finds it."""

    name: str
    place: str


def _named(name: str) -> _Model:
    """Presets become folders; everything else is vLLM's to understand."""
    if name not in PRESETS or (Path(name) / "config.json").is_file():
        return _Model(name, name)
    with show_progress() as progress:
        return _Model(name, str(resolve(name, progress=progress).path))


def _pad(args: argparse.Namespace) -> int:
    for package in ("torch", "safetensors"):
        if importlib.util.find_spec(package) is None:
            raise MissingDependencyError(package, "engine")
    from vllm_asymspec.tools.pad_drafter import pad_drafter, vocab_size_of

    with show_progress() as progress:
        source = resolve(args.drafter, progress=progress).path
        vocab_size = args.vocab_size
        if vocab_size is None:
            vocab_size = vocab_size_of(resolve(args.like, progress=progress).path)
    padding = pad_drafter(
        source, args.folder, vocab_size, progress=lambda name: print(f"{name} …", flush=True)
    )
    print(
        f"{padding.folder}: {padding.old_vocab_size:,} rows became {padding.new_vocab_size:,} "
        f"in {', '.join(padding.tensors)}"
    )
    return 0
