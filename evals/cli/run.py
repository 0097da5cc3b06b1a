"""`run SUITE…`: asks every sample of every cell, and goes on where a run was stopped."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asymspec_agents.errors import ConfigurationError

from ..cells import Cell
from ..plan import Plan, merged
from ..progress import shown
from ..provenance import provenance
from ..record_log import Entry
from ..run_folder import RunFolder, read_plan, read_run
from ..runner import rescore
from ..runner import run as run_jobs
from ..suite import Suite
from .asking import Asked, ask, asked_before, cells_for, load_data, seed_of, selection, suites_of
from .dry_run import print_plan
from .models import add_judge, add_system, has_judge, open_judge, system_options
from .telling import rows_of, tell_end, tell_start

if TYPE_CHECKING:
    from ..systems import SystemOptions

__all__ = ["add_parser", "run"]


def add_parser(subparsers: Any) -> None:
    """Adds the `run` command."""
    parser = subparsers.add_parser(
        "run",
        help="run suites over arms and views, or go on with a run",
        description="Runs suites over arms and views. A folder that holds a run already is gone on with: "
        "what is recorded stays, what is named in addition is added, and what is not named stays as it is.",
    )
    parser.add_argument("suites", nargs="*", metavar="SUITE", help="which suites (default: the folder's)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="the run's folder")
    add = parser.add_argument
    add("--arm", nargs="+", action="extend", help="arms, such as floor asymspec:beta=2 (default: four)")
    add(
        "--view",
        nargs="+",
        action="extend",
        help="views, such as extract@0.3 truncate@500 (default: the suite's)",
    )
    add(
        "--sweep",
        nargs="+",
        action="extend",
        default=[],
        metavar="OPTION=V,V",
        help="arms once for each value",
    )
    add("--data", nargs="+", action="extend", default=[], metavar="[SUITE=]PATH", help="local data")
    add(
        "--option",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="of the suites, such as cassette=web.jsonl online=true for those that use the web",
    )
    add("--samples", type=_samples, metavar="N", help="a fixed random subset: 50 are among 100 (or: all)")
    add("--ids", type=Path, metavar="FILE", help="only the sample ids in a file, one a line")
    add(
        "--only",
        nargs="+",
        action="extend",
        default=[],
        metavar="GROUP=VALUE",
        help="only samples of a group",
    )
    add("--seed", type=int, metavar="N", help="of the subset (default: 0)")
    add(
        "--retry-failed", action="store_true", help="ask again what failed, and score again what had no score"
    )
    add("--rescore", action="store_true", help="score every recorded answer anew, asking no model under test")
    add("--dry-run", action="store_true", help="tell what would be asked")
    add(
        "--parallel",
        type=_parallel,
        default=1,
        metavar="N",
        help="answers at once, of a server; seconds then include waiting for each other (default: 1)",
    )
    add(
        "--keep-restricted",
        action="store_true",
        help="keep questions and views of suites whose terms forbid resharing; the folder must stay private",
    )
    add(
        "--stop-after-outages",
        type=_count,
        default=3,
        metavar="N",
        help="stop when a server failed N times in a row, and record none of them (0: never; default: 3)",
    )
    add_system(parser)
    add_judge(parser)


def _parallel(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 1_000:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 to 1,000")
    return int(text)


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of 0 or more")
    return int(text)


def _samples(text: str) -> int | str:
    if text == "all":
        return text
    if not text.isascii() or not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number above 0 nor `all`")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Runs. Returns 0, 1 where records of the folder are failures, 130 where it was interrupted."""
    if args.dry_run:
        return _dry_run(args)
    if args.out is None:
        raise ConfigurationError("--out is missing; name the run's folder, new or to be gone on with")
    try:
        return (_rescore if args.rescore else _run)(args)
    except KeyboardInterrupt:
        print("stopped; what is recorded is whole. The same command goes on", file=sys.stderr)
        return 130


def _dry_run(args: argparse.Namespace) -> int:
    is_begun = args.out is not None and read_plan(args.out) is not None
    found = read_run(args.out) if is_begun else None
    before = found.plan if found else None
    suites = suites_of(args, before)
    cells = cells_for(args, suites, before)
    print_plan(ask(args, load_data(args, suites), cells, before), found.log.entries if found else {})
    return 0


def _run(args: argparse.Namespace) -> int:
    # What is wrong on the command line is said before the folder is touched, and a folder is locked before
    # data and models are loaded.
    options = system_options(args)
    before = read_plan(args.out)
    suites = suites_of(args, before)
    _check_judge(args, suites)
    cells_for(args, suites, before)
    for suite in suites:
        suite.prepare()
    with RunFolder(args.out) as folder:
        _ask(args, suites, options, folder)
        return tell_end(folder)


def _ask(
    args: argparse.Namespace, suites: Sequence[Suite], options: SystemOptions, folder: RunFolder
) -> None:
    from evals.systems import open_system

    _check_whole(folder)
    before = folder.plan
    asked = ask(args, load_data(args, suites), cells_for(args, suites, before), before)
    if before is not None:  # all that can be known before a model is loaded
        judges = {name: suite.judge for name, suite in before.suites.items()}
        now = _plan(args, asked, before, before.system, lambda name: judges.get(name))
        merged(before, now, folder=args.out)
    with contextlib.ExitStack() as stack:
        system = open_system(options)
        stack.callback(system.close)
        _check_cells(system, (cell for part in asked for cell in part.cells))
        _check_parallel(system, args.parallel)
        judge = stack.enter_context(open_judge(args, args.out, system))
        now = _plan(args, asked, before, system.identity, lambda name: judge.name if judge else None)
        plan = merged(before, now, folder=args.out) if before is not None else now
        jobs = [part.job(plan, judge) for part in asked]
        _check_cells(system, (cell for job in jobs for cell in job.cells))
        folder.write_plan(plan)
        tell_start(asked, jobs, plan, args.samples)

        def redo(entry: Entry) -> bool:
            return bool(args.retry_failed) and entry.failed_at is not None

        with shown(rows_of(jobs, folder, redo), sys.stderr) as tally:
            tally.num_parallel = args.parallel
            run_jobs(
                folder,
                jobs,
                system,
                tally,
                retry_failed=args.retry_failed,
                stop_after_outages=args.stop_after_outages,
                num_parallel=args.parallel,
                keeps_restricted=args.keep_restricted,
            )


def _check_rescoring(args: argparse.Namespace) -> None:
    for name in ("arm", "view", "sweep", "samples", "ids", "only", "seed", "retry_failed"):
        if getattr(args, name):
            raise ConfigurationError(
                f"--rescore scores all that is recorded of a suite; leave --{name.replace('_', '-')} out"
            )


def _rescore(args: argparse.Namespace) -> int:
    _check_rescoring(args)
    if read_plan(args.out) is None:
        raise ConfigurationError(f"--rescore: there is no run in {args.out}")
    with RunFolder(args.out) as folder:
        if folder.plan is not None:
            _score(args, folder, folder.plan)
        return tell_end(folder)


def _score(args: argparse.Namespace, folder: RunFolder, before: Plan) -> None:
    suites = suites_of(args, before)
    for suite in suites:
        if suite.name not in before.suites:
            raise ConfigurationError(
                f"--rescore: the run asks no {suite.name}; it asks {', '.join(before.suites)}"
            )
    _check_judge(args, suites)
    asked = [
        asked_before(data, before, tuple(map(Cell.parse, before.suites[data.suite.name].cells)))
        for data in load_data(args, suites)
    ]
    with open_judge(args, args.out, None) as judge:
        now = _plan(args, asked, before, before.system, lambda name: judge.name if judge else None)
        plan = merged(before, now, folder=args.out, is_rescoring=True)
        names = {suite.name for suite in suites}
        begun = plan.model_copy(update={"rescoring": tuple(sorted({*plan.rescoring, *names}))})
        folder.write_plan(begun)
        jobs = [part.job(plan, judge) for part in asked]
        with shown(rows_of(jobs, folder, lambda entry: entry.has_output), sys.stderr) as tally:
            rescore(folder, jobs, tally, stop_after_outages=args.stop_after_outages)
    rest = tuple(name for name in begun.rescoring if name not in names)
    folder.write_plan(begun.model_copy(update={"rescoring": rest}))


def _plan(
    args: argparse.Namespace,
    asked: Sequence[Asked],
    before: Plan | None,
    system: dict[str, Any],
    judge_of: Callable[[str], str | None],
) -> Plan:
    facts: dict[str, Any] = {"rescored": True}
    if not args.rescore:
        facts = {"selection": selection(args, before), "num_parallel": args.parallel}
    return Plan(
        system=system,
        options={"seed": seed_of(args, before)},
        suites={part.data.suite.name: part.plan(judge_of(part.data.suite.name)) for part in asked},
        provenance=(provenance("torch", "transformers", **facts),),
    )


def _check_judge(args: argparse.Namespace, suites: Iterable[Suite]) -> None:
    needing = [suite.name for suite in suites if suite.needs_judge]
    if not has_judge(args) and needing:
        raise ConfigurationError(
            f"{', '.join(needing)}: graded by a judge; name one with --judge-url and --judge-model, or "
            "--judge local"
        )


def _check_whole(folder: RunFolder) -> None:
    if folder.plan is not None and folder.plan.rescoring:
        names = " ".join(folder.plan.rescoring)
        raise ConfigurationError(
            f"{folder.path}: a new scoring of {names} was cut short, and old and new scores stand side by "
            f"side; end it with: run {names} --rescore"
        )


def _check_parallel(system: Any, num_parallel: int) -> None:
    most = system.max_parallel
    if most is not None and num_parallel > most:
        raise ConfigurationError(
            f"--parallel {num_parallel}: models in this process answer {most} at a time; leave it out, or "
            "name a server with --url"
        )


def _check_cells(system: Any, cells: Iterable[Cell]) -> None:
    """Raises ConfigurationError naming every cell that the system can't answer, and why."""
    problems = []
    for cell in {str(cell): cell for cell in cells}.values():
        try:
            system.check(cell)
        except ConfigurationError as error:
            problems.append(f"{cell}: {error}")
    if problems:
        raise ConfigurationError("these cells can't be had here:\n  " + "\n  ".join(problems))
