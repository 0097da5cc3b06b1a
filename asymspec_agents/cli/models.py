"""`asymspec models`: lists, pulls and removes the preset models."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .. import weights
from .table import print_table

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Adds the `models` command to an argparse subparsers object."""
    parser = subparsers.add_parser("models", help="list, pull or remove models")
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    pair = weights.DEFAULT_PAIR
    listing = actions.add_parser("list", help="show the presets and which are cached")
    pull = actions.add_parser("pull", help="fetch models, and convert the presets among them")
    pull.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        default=[pair.verifier, pair.drafter],
        help=f"a preset, a hub name or a folder (default: {pair.verifier} {pair.drafter})",
    )
    removal = actions.add_parser("remove", help="delete presets from the cache")
    removal.add_argument("names", nargs="+", metavar="NAME", help="a preset")
    for action in (listing, pull, removal):
        action.add_argument("--cache-dir", type=Path, help="where presets are kept (default: ASYMSPEC_CACHE)")


def run(args: argparse.Namespace) -> int:
    """Exit code 0; raises WeightsError when a model can't be fetched or a name is no preset."""
    if args.action == "list":
        _list(args.cache_dir)
    elif args.action == "pull":
        _pull(args.names, args.cache_dir)
    else:
        _remove(args.names, args.cache_dir)
    return 0


def _list(cache_dir: Path | None) -> None:
    rows = []
    for model in weights.list_models(cache_dir):
        preset = model.preset
        size = model.num_bytes if model.state == "cached" else preset.num_bytes
        size_text = f"{size / 1e9:.1f} GB" + ("" if model.state == "cached" else " to fetch")
        rows.append((preset.name, preset.role, model.state, size_text, preset.licence, preset.source_model))
    print_table(("name", "use", "state", "size", "licence", "model"), rows)
    print(f"cache: {cache_dir or weights.default_cache_dir()}")


def _pull(names: list[str], cache_dir: Path | None) -> None:
    for name in names:
        with weights.show_progress() as progress:
            folder = weights.resolve(name, cache_dir=cache_dir, progress=progress)
        print(folder.path)


def _remove(names: list[str], cache_dir: Path | None) -> None:
    for name in names:
        num_bytes = weights.remove(name, cache_dir)
        print(f"{name}: {num_bytes / 1e9:.1f} GB freed" if num_bytes else f"{name}: not cached")
