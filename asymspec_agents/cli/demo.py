"""`asymspec demo`: a smolagents agent on two real models through the router, against its baselines.

The models are loaded here, or a server has them (`--url`); the agent is the same.
Every arm gets the same agent, tools, tasks and compressed views; nothing is tuned to an arm, and what an arm
gets wrong is shown as wrong.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from ..config import from_env
from ..errors import ConfigurationError, ConnectionFailedError, MissingDependencyError
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
    for role, default in (("verifier", DEFAULT_PAIR.verifier), ("drafter", DEFAULT_PAIR.drafter)):
        parser.add_argument(f"--{role}", help=f"preset, folder or hub name (default: {default})")
    parser.add_argument("--url", help="address of a running AsymSpec server, instead of loading models")
    parser.add_argument("--api-key", metavar="KEY", help="the server's (default: ASYMSPEC_API_KEY)")
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
    """Exit code 0 once every arm has run, whatever the arms got right.

    Raises ConnectionFailedError where the server is gone.
    """
    try:
        import smolagents  # noqa: F401
    except ImportError as error:
        raise MissingDependencyError("smolagents", "smolagents") from error
    from .demo_show import open_terminal
    from .demo_tasks import TASKS

    terminal = open_terminal()
    terminal.line("The items, fixed beforehand:")
    for number, task in enumerate(TASKS, 1):
        terminal.line(f"  task {number}: {task.request}")
        for item in task.items:
            terminal.line(f"    {item.name}: {item.wanted}")
    backend = _load(args, terminal) if args.url is None else _connect(args, terminal)
    try:
        results = [_run_arm(backend, arm, terminal) for arm in args.arms]
    finally:
        backend.close()
    _print_items(results)
    _print_costs(results)
    return 0


def _load(args: argparse.Namespace, terminal: Any) -> Any:
    """Both models in this process."""
    from ..backends.local import LocalBackend

    if args.api_key is not None:
        raise ConfigurationError("--api-key is for a server; give its address with --url")
    verifier, drafter = args.verifier or DEFAULT_PAIR.verifier, args.drafter or DEFAULT_PAIR.drafter
    terminal.line(f"Loading verifier {verifier} and drafter {drafter} …")
    with show_progress() as progress:
        backend = LocalBackend.load(verifier, drafter, progress=progress)
    terminal.legend()
    return backend


def _connect(args: argparse.Namespace, terminal: Any) -> Any:
    """The models of a running server."""
    from ..backends import HTTPBackend

    if args.verifier is not None or args.drafter is not None:
        raise ConfigurationError("--verifier and --drafter are the server's own; leave them out with --url")
    backend = HTTPBackend(args.url, api_key=args.api_key or from_env().api_key)
    capabilities = backend.capabilities
    if "drafter" in args.arms and capabilities.drafter is None:
        raise ConfigurationError(f"{args.url} names no drafter; leave the arm out with --arms")
    terminal.line(f"Verifier {capabilities.verifier}, drafter {capabilities.drafter} at {backend.base_url}")
    return backend


def _run_arm(backend: Any, arm: str, terminal: Any) -> ArmResult:
    """All tasks by one arm, with caches of its own so that no arm profits from the one before."""
    from smolagents import FinalAnswerStep, LogLevel, ToolCallingAgent
    from smolagents.utils import AgentError

    from smolagents_asymspec import AsymSpecModel

    from ..backends import new_request_id
    from ..backends.local import LocalBackend
    from ..trace import MemoryRecorder
    from .demo_show import Narrated
    from .demo_tasks import TASKS, Outcome, tools_for

    terminal.line(f"\n== {NAMES[arm]}")
    recorder = None
    if isinstance(backend, LocalBackend):
        backend.engine.recorder = recorder = MemoryRecorder()
    narrated = Narrated(backend.with_arm(arm), arm, terminal, recorder)
    model = AsymSpecModel(narrated, max_tokens=MAX_TOKENS, cache_salt=new_request_id())
    verdicts: list[bool] = []
    for number, task in enumerate(TASKS, 1):
        terminal.line(f"-- task {number}")
        outcome = Outcome()
        agent = ToolCallingAgent(
            tools=tools_for(outcome),
            model=model,
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
            if isinstance(error.__cause__, ConnectionFailedError):
                raise error.__cause__ from error
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
