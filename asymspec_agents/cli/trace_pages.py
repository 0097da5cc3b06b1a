"""`asymspec trace html | view | compare`: a trace, or two, as a page in a file or in the browser."""

from __future__ import annotations

import argparse
import json
import os
import sys
import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ConfigurationError
from .trace_story import print_pairs

if TYPE_CHECKING:
    from ..trace.comparing import Pair
    from ..trace.story import Story

__all__ = ["add_parsers", "run"]


def add_parsers(subparsers: Any) -> None:
    """Adds the actions."""
    file = subparsers.add_parser("html", help="write a trace as one self-contained page")
    file.add_argument("files", nargs="+", metavar="FILE", help="traces that belong together")
    file.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="the page to write")
    view = subparsers.add_parser("view", help="show a trace in the browser")
    view.add_argument("files", nargs="+", metavar="FILE", help="traces that belong together")
    _add_serving(view)
    compare = subparsers.add_parser("compare", help="two traces, turn by turn")
    compare.add_argument("left", metavar="A", help="a trace")
    compare.add_argument("right", metavar="B", help="the trace to compare it with")
    form = compare.add_mutually_exclusive_group()
    form.add_argument("-o", "--output", type=Path, metavar="FILE", help="write a self-contained page")
    form.add_argument("--view", action="store_true", help="show the comparison in the browser")
    form.add_argument("--json", action="store_true", help="print the comparison as JSON")
    _add_serving(compare)


def _add_serving(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=_port, default=0, help="of this machine (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: 0 (a free one) to 65535")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Writes or serves the page, or prints the comparison. Returns 0, or 1 where two traces differ."""
    if args.action == "compare":
        return _compare(args)
    _warn_of_nothing(args.files)
    if args.action == "html":
        return _write(lambda: _page(args.files), args.output, args.files)
    return _serve(lambda: _page(args.files), args)


def _page(files: list[str]) -> str:
    from ..trace.story import read_story
    from ..trace.viewer import render_page, story_data

    story = read_story(*files)
    return render_page(story_data(story), story.title)


def _warn_of_nothing(files: list[str]) -> None:
    for name in files:
        with open(name, "rb") as file:  # what cannot be read is an error here, not a page
            if not file.read(1):
                print(f"note: {name} is empty", file=sys.stderr)


def _compare(args: argparse.Namespace) -> int:
    from ..trace.comparing import compare
    from ..trace.story import read_story

    def stories() -> tuple[Story, Story, tuple[Pair, ...]]:
        left, right = read_story(args.left), read_story(args.right)
        return left, right, compare(left, right)

    def page() -> str:
        from ..trace.viewer import comparison_data, render_page

        left, right, pairs = stories()
        return render_page(comparison_data(left, right, pairs), f"{left.title} and {right.title}")

    if args.output is not None:
        return _write(page, args.output, [args.left, args.right])
    if args.view:
        return _serve(page, args)
    left, right, pairs = stories()
    for name, story in (("A", left), ("B", right)):
        for note in story.notes:
            print(f"note: {name}: {note}", file=sys.stderr)
    if args.json:
        print(json.dumps([_as_json(pair) for pair in pairs], indent=2))
    else:
        print_pairs(left, right, pairs)
    return 0 if all(pair.is_same for pair in pairs) else 1


def _as_json(pair: Pair) -> dict[str, Any]:
    return {
        "a": None if pair.left is None else pair.left.number,
        "b": None if pair.right is None else pair.right.number,
        "is_same": pair.is_same,
        "common_chars": pair.common_chars,
        "common_tokens": pair.common_tokens,
    }


def _write(make_page: Callable[[], str], output: Path, files: list[str]) -> int:
    for name in files:
        if output.exists() and output.samefile(name):
            raise ConfigurationError(f"--output={str(output)!r} is a trace itself: name another file")
    page = make_page()
    # A new page is readable by its owner only, as the trace may be whose texts it holds.
    with open(output, "w", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(page)
    print(f"{output}: {len(page.encode()) / 1e6:.1f} MB, open it in any browser")
    return 0


def _serve(make_page: Callable[[], str], args: argparse.Namespace) -> int:
    from ..trace.viewer import PageServer

    with PageServer(make_page, args.port) as server:
        print(f"{server.url}  (Ctrl-C stops)", flush=True)
        if not args.no_browser:
            webbrowser.open(server.url)
        server.wait()
    return 0
