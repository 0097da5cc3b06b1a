"""`asymspec vocab`: builds and shows maps between the vocabularies of two models."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..decoding.coverage import SAMPLE, Coverage, coverage
from ..decoding.vocab import VocabMap
from ..decoding.vocab_file import load_map, map_format, save_map
from ..errors import ConfigurationError, MissingDependencyError
from ..weights import resolve, show_progress
from .table import print_table, printable

if TYPE_CHECKING:
    from ..decoding.spelling import Speller

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Adds the `vocab` command to an argparse subparsers object."""
    parser = subparsers.add_parser("vocab", help="map a drafter's vocabulary to a verifier's")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    building = actions.add_parser("build", help="write the map of two models to a file")
    showing = actions.add_parser("show", help="say what a map covers")
    building.add_argument("verifier", metavar="VERIFIER", help="preset, folder or hub name")
    building.add_argument("drafter", metavar="DRAFTER", help="preset, folder or hub name")
    building.add_argument(
        "-o", "--output", required=True, type=Path, metavar="FILE", help="a .json or .safetensors file"
    )
    showing.add_argument(
        "names", nargs="+", metavar="NAME", help="the file of a map, or verifier and drafter, or all three"
    )
    for action in (building, showing):
        action.add_argument("--sample", type=Path, metavar="FILE", help="a text to count coverage on")
        action.add_argument("--json", action="store_true", help="print figures as JSON")


def run(args: argparse.Namespace) -> int:
    """Exit code 0; raises AsymSpecError where a model, a map or a sample cannot be read."""
    sample = SAMPLE if args.sample is None else args.sample.read_text("utf-8", errors="replace")
    if args.action == "build":
        map_format(args.output)  # before anything is fetched
        large, small = _speller(args.verifier), _speller(args.drafter, drafts=True)
        vocab_map = VocabMap.build(large.vocabulary, small.vocabulary)
        save_map(vocab_map, args.output)
        _show(vocab_map, coverage(vocab_map, large, small, sample), as_json=args.json)
        return 0
    *file, verifier, drafter = args.names if len(args.names) > 1 else [*args.names, None, None]
    if len(file) > 1:
        raise ConfigurationError("give the file of a map, or verifier and drafter, or all three")
    if verifier is None:
        if args.sample is not None:
            raise ConfigurationError(
                f"--sample {args.sample}: a map alone has no tokenizers to read a text with; name verifier "
                "and drafter behind it, or leave --sample out"
            )
        _show(load_map(file[0]), None, as_json=args.json)
        return 0
    large, small = _speller(verifier), _speller(drafter, drafts=True)
    vocab_map = load_map(file[0]) if file else VocabMap.build(large.vocabulary, small.vocabulary)
    vocab_map.check(large.vocabulary, small.vocabulary)
    _show(vocab_map, coverage(vocab_map, large, small, sample), as_json=args.json)
    return 0


def _speller(name: str, *, drafts: bool = False) -> Speller:
    """How a model spells; raises IncompatibleModelsError for one that `drafts` and takes no map."""
    try:
        from ..engine.load import load_speller
        from ..engine.vision.load import is_seeing, takes_no_map
    except ImportError as error:
        raise MissingDependencyError(error.name or "torch", "engine") from error
    with show_progress() as progress:
        folder = resolve(name, progress=progress)
    if drafts and is_seeing(folder.path, name):
        raise takes_no_map(name)
    return load_speller(folder.path, name=name)


def _show(vocab_map: VocabMap, found: Coverage | None, *, as_json: bool) -> None:
    if as_json:
        facts = {
            name: getattr(vocab_map, name)
            for name in ("verifier_name", "drafter_name", "verifier_size", "drafter_size")
        }
        more = {"num_mapped": len(vocab_map)} if found is None else dataclasses.asdict(found)
        print(json.dumps({**facts, **more}))
        return
    sizes = ("ids", f"{vocab_map.verifier_size:,}", f"{vocab_map.drafter_size:,}")
    pairs = ("of them mapped", f"{len(vocab_map):,}", f"{len(vocab_map):,}")
    columns = ("", _named("verifier", vocab_map.verifier_name), _named("drafter", vocab_map.drafter_name))
    if found is None:
        print_table(columns, [sizes, pairs])
        return
    shares = [
        ("share of the ids", found.verifier_ids, found.drafter_ids),
        ("share of a text's tokens", found.verifier_tokens, found.drafter_tokens),
        ("share of a text's bytes", found.verifier_bytes, found.drafter_bytes),
    ]
    rows = [(name, f"{large:.1%}", f"{small:.1%}") for name, large, small in shares]
    print_table(columns, [sizes, pairs, *rows])
    print("special tokens: " + ", ".join(f"{mine} = {own}" for mine, own in found.roles))
    if found.unmapped:
        print(printable("without a counterpart, for example: " + ", ".join(map(repr, found.unmapped))))
    if found.missing_bytes:
        print(
            f"bytes that the drafter cannot spell, and reads as U+FFFD: "
            f"{', '.join(f'{byte:02X}' for byte in found.missing_bytes)}"
        )


def _named(role: str, name: str) -> str:
    return f"{role} {name}" if name else role
