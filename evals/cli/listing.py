"""`list`: the suites, arms and views there are."""

from __future__ import annotations

import argparse
import dataclasses
import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from asymspec_agents.cli.table import print_table
from asymspec_agents.decoding.modes import MODES

from ..cells import IDENTICAL
from ..suites import SUITES, suite_named

__all__ = ["ARMS", "add_parser", "run"]

ARMS: dict[str, str] = {
    "floor": "the verifier alone, on the compressed view",
    "ceiling": "the verifier alone, on the full view",
    "drafter": "the drafter alone, on the full view",
    "symmetric_full": "speculative decoding, both models on the full view (lossless)",
    "symmetric_compressed": "speculative decoding, both models on the compressed view (lossless)",
    "scd": "speculative contrastive decoding on the compressed view",
    "rapid": "the drafter on the compressed view, the verifier on the full one (lossless)",
    IDENTICAL: "AsymSpec given the full view twice: the control that must equal ceiling",
    "asymspec": "AsymSpec as it is by default: gate cda, delta context",
    "paper": "AsymSpec as published: bonus token by the verifier, gate kept on identical views",
    **{
        name: f"AsymSpec with gate {rule.gate}, delta {rule.delta}{', beta scaled' if rule.scale else ''}"
        for name, rule in MODES.items()
        if name != "asymspec"
    },
    "GATE+DELTA": "AsymSpec with any gate and delta, such as slack+context:slack=0.5",
}
"""Every arm with what it is; options follow a name, as in asymspec:beta=2,num_draft_tokens=4."""


@dataclass(frozen=True, slots=True)
class _SuiteRow:
    name: str
    title: str
    metric: str
    views: tuple[str, ...]
    needs_judge: bool
    may_use_judge: bool
    options: tuple[str, ...]
    run_options: tuple[str, ...]
    source: str


def add_parser(subparsers: Any) -> None:
    """Adds the `list` command."""
    parser = subparsers.add_parser("list", help="the suites, arms and views there are")
    parser.add_argument("--json", action="store_true", help="print them as JSON")


def run(args: argparse.Namespace) -> int:
    """Prints the lists. Returns 0."""
    from evals.views import list_views

    suites = [_row(name) for name in sorted(SUITES)]
    views = dict(list_views())
    if args.json:
        content = {"suites": [dataclasses.asdict(row) for row in suites], "arms": ARMS, "views": views}
        print(json.dumps(content, indent=1))
        return 0
    print_table(
        ("suite", "what it is", "metric", "default views", "judge", "options"),
        [
            (
                row.name,
                row.title,
                row.metric,
                " ".join(row.views),
                "needed" if row.needs_judge else "optional" if row.may_use_judge else "-",
                " ".join(row.options) or "-",
            )
            for row in suites
        ],
    )
    print("\nOptions follow a suite's name: longbench_musique:max_prompt_tokens=8000")
    for options, names in _run_options(suites).items():
        print(f"--option NAME=VALUE, of {' '.join(names)}: {' '.join(options)}")
    print("\nData, fetched or taken from --data SUITE=PATH:")
    for row in suites:
        print(f"  {row.name}: {row.source}")
    print()
    print_table(("arm", "what it is"), list(ARMS.items()))
    print()
    print_table(("view", "what the compressed view keeps"), list(views.items()))
    return 0


def _row(name: str) -> _SuiteRow:
    suite = suite_named(name)
    return _SuiteRow(
        name=name,
        title=suite.title,
        metric=suite.metric,
        views=tuple(suite.default_views),
        needs_judge=suite.needs_judge,
        may_use_judge=suite.may_use_judge,
        options=tuple(inspect.signature(type(suite)).parameters),
        run_options=suite.option_names,
        source=suite.source,
    )


def _run_options(rows: Iterable[_SuiteRow]) -> dict[tuple[str, ...], list[str]]:
    """The suites by the options that `--option` gives them; none without any."""
    found: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        if row.run_options:
            found.setdefault(row.run_options, []).append(row.name)
    return found
