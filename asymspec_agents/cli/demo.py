"""`asymspec demo`: a smolagents agent on two real models through the router, against its baselines.

Every arm gets the same agent, tools, tasks and compressed views; nothing is tuned to an arm, and what an arm
gets wrong is shown as wrong.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from ..errors import MissingDependencyError
from ..weights import DEFAULT_PAIR, show_progress
from .table import print_table

__all__ = ["add_parser", "run"]

ARMS = ("asymspec", "floor", "drafter", "ceiling")
NAMES = {
    "asymspec": "AsymSpec (verifier: compressed view, drafter: full view)",
    "floor": "Floor (verifier alone, compressed view)",
    "drafter": "Drafter alone (full view)",
    "ceiling": "Ceiling (verifier alone, full view)",
}
MAX_STEPS = 2
MAX_TOKENS = 140


def add_parser(subparsers: Any) -> None:
    """Adds the `demo` command to an argparse subparsers object."""
    parser = subparsers.add_parser("demo", help="run an agent on real models, AsymSpec against its baselines")
    parser.add_argument(
        "--verifier", default=DEFAULT_PAIR.verifier, help="preset, folder or hub name (default: %(default)s)"
    )
    parser.add_argument(
        "--drafter", default=DEFAULT_PAIR.drafter, help="preset, folder or hub name (default: %(default)s)"
    )
    parser.add_argument(
        "--arms", nargs="+", choices=ARMS, default=list(ARMS), help="what to run (default: all)"
    )


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm's verdicts in the order of the items, and its costs."""

    arm: str
    verdicts: tuple[bool, ...]
    totals: Any


def run(args: argparse.Namespace) -> int:
    """Exit code 0 once every arm has run, whatever the arms got right."""
    try:
        import smolagents  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("smolagents", "smolagents") from error
    from ..backends.local import LocalBackend
    from .demo_show import open_terminal
    from .demo_tasks import TASKS

    terminal = open_terminal()
    terminal.line(f"Verifier {args.verifier}, drafter {args.drafter}. The items, fixed beforehand:")
    for number, task in enumerate(TASKS, 1):
        terminal.line(f"  task {number}: {task.request}")
        for item in task.items:
            terminal.line(f"    {item.name}: {item.wanted}")
    terminal.line("Loading both models …")
    with show_progress() as progress:
        backend = LocalBackend.load(args.verifier, args.drafter, progress=progress)
    terminal.legend()
    results = [_run_arm(backend, arm, terminal) for arm in args.arms]
    _print_items(results)
    _print_costs(results)
    return 0


def _run_arm(backend: Any, arm: str, terminal: Any) -> ArmResult:
    """All tasks by one arm, from empty caches so that no arm profits from the one before."""
    from smolagents import FinalAnswerStep, LogLevel, ToolCallingAgent
    from smolagents.utils import AgentError

    from smolagents_asymspec import AsymSpecModel

    from ..trace import MemoryRecorder
    from .demo_show import Narrated
    from .demo_tasks import TASKS, Outcome, tools_for

    terminal.line(f"\n== {NAMES[arm]}")
    backend.engine.prefixes.clear()
    backend.engine.recorder = recorder = MemoryRecorder()
    narrated = Narrated(backend.with_arm(arm), terminal, recorder)
    verdicts: list[bool] = []
    for number, task in enumerate(TASKS, 1):
        terminal.line(f"-- task {number}")
        outcome = Outcome()
        agent = ToolCallingAgent(
            tools=tools_for(outcome),
            model=AsymSpecModel(narrated, max_tokens=MAX_TOKENS),
            max_steps=MAX_STEPS,
            verbosity_level=LogLevel.OFF,
        )
        try:
            for step in agent.run(task.request, stream=True):
                if isinstance(step, FinalAnswerStep):
                    outcome.answer = str(step.output)
                    terminal.line(f"  answer: {outcome.answer}")
                if task.is_done(outcome):
                    agent.interrupt()
        except AgentError as error:  # an interrupted run ends so too
            if not task.is_done(outcome):
                terminal.line(f"  the run failed: {error}")
        for item in task.items:
            verdicts.append(item.is_right(outcome))
            terminal.line(f"  {'right' if verdicts[-1] else 'WRONG'}: {item.name}, wanted {item.wanted}")
    return ArmResult(arm, tuple(verdicts), narrated.totals)


def _print_items(results: list[ArmResult]) -> None:
    from .demo_tasks import TASKS

    items = [(number, item) for number, task in enumerate(TASKS, 1) for item in task.items]
    rows = [
        (f"{number}. {item.name}", *("right" if result.verdicts[index] else "wrong" for result in results))
        for index, (number, item) in enumerate(items)
    ]
    total = ("right", *(f"{sum(result.verdicts)} of {len(items)}" for result in results))
    print()
    print_table(("item", *(result.arm for result in results)), rows, total)
    by_arm = {result.arm: result.verdicts for result in results}
    if "floor" in by_arm and "asymspec" in by_arm:
        regained = [
            ours for ours, floor in zip(by_arm["asymspec"], by_arm["floor"], strict=True) if not floor
        ]
        print(f"Of the {len(regained)} items Floor got wrong, AsymSpec got {sum(regained)} right.")


def _print_costs(results: list[ArmResult]) -> None:
    rows = []
    for result in results:
        totals = result.totals
        acceptance = f"{totals.accepted / totals.drafted:.2f}" if totals.drafted else "-"
        rows.append(
            (
                result.arm,
                f"{sum(result.verdicts)}/{len(result.verdicts)}",
                str(totals.num_turns),
                f"{totals.verifier_tokens:,}",
                f"{totals.drafter_tokens:,}",
                f"{totals.answer_tokens:,}",
                acceptance,
                f"{totals.seconds:.0f}",
            )
        )
    print()
    print_table(
        ("arm", "right", "calls", "verifier ran", "drafter ran", "written", "acceptance", "seconds"),
        rows,
    )
    print("A model ran every position of prompt, drafts and answer, but for what it found in its caches.")
