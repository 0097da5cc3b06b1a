"""From the words of `run` to what it asks: suites with their data, the samples chosen, and the cells."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asymspec_agents.errors import ConfigurationError

from ..cells import Cell, ViewSpec, cells_of
from ..plan import Plan, SuitePlan, fingerprint, gold_fingerprint
from ..runner import Job
from ..sample import Sample
from ..sampling import checked_ids, chosen, missing_groups
from ..suite import Judge, Suite
from ..suites import suite_named
from .choices import DEFAULT_ARMS, arms_of, data_paths, only_of, options_of, read_ids

__all__ = [
    "Asked",
    "Data",
    "ask",
    "asked_before",
    "cells_for",
    "load_data",
    "seed_of",
    "selection",
    "suites_of",
]


@dataclass(frozen=True, slots=True)
class Data:
    """A suite with every sample of its release."""

    suite: Suite
    samples: tuple[Sample, ...]
    fingerprint: str
    gold_fingerprint: str


@dataclass(frozen=True, slots=True)
class Asked:
    """A suite's samples and cells that are to be asked."""

    data: Data
    samples: tuple[Sample, ...]
    cells: tuple[Cell, ...]

    def plan(self, judge: str | None) -> SuitePlan:
        """As it stands in a run's plan; `judge` is who grades those suites that are graded by one."""
        return SuitePlan(
            fingerprint=self.data.fingerprint,
            gold_fingerprint=self.data.gold_fingerprint,
            num_samples=len(self.data.samples),
            judge=judge if self.data.suite.uses_judge else None,
            samples=tuple(sample.id for sample in self.samples),
            cells=tuple(map(str, self.cells)),
        )

    def job(self, plan: Plan, judge: Judge | None) -> Job:
        """All that the plan asks of this suite, which may be more."""
        planned = plan.suites[self.data.suite.name]
        by_id = {sample.id: sample for sample in self.data.samples}
        samples = tuple(by_id[name] for name in planned.samples)
        cells = tuple(map(Cell.parse, planned.cells))
        return Job(self.data.suite, samples, cells, judge if self.data.suite.uses_judge else None)


def suites_of(args: argparse.Namespace, before: Plan | None) -> tuple[Suite, ...]:
    """The suites that are named, or else the folder's. Raises ConfigurationError where there is none."""
    names = args.suites or tuple(before.suites if before else ())
    if not names:
        raise ConfigurationError("no suite is named; `python -m evals list` has them")
    suites = {suite.name: suite for suite in map(suite_named, names)}
    return _with_options(suites.values(), options_of(args.option))


def _with_options(suites: Collection[Suite], options: Mapping[str, str]) -> tuple[Suite, ...]:
    """The suites, each with those of the options that it knows; every option must concern one of them."""
    for name in options:
        if not any(name in suite.option_names for suite in suites):
            for suite in suites:
                if name in inspect.signature(type(suite)).parameters:
                    kind = suite.name.partition(":")[0]
                    raise ConfigurationError(
                        f"--option {name}: in {kind} it is part of the suite's name, as "
                        f"{kind}:{name}={options[name]}"
                    )
            known = dict.fromkeys(option for suite in suites for option in suite.option_names)
            here = ", ".join(suite.name for suite in suites)
            raise ConfigurationError(
                f"--option {name}: no suite of this run has it ({here}); "
                + (f"their options: {', '.join(known)}" if known else "they have none")
            )
    return tuple(
        suite.with_options({name: options[name] for name in options if name in suite.option_names})
        for suite in suites
    )


def cells_for(
    args: argparse.Namespace, suites: Iterable[Suite], before: Plan | None
) -> dict[str, tuple[Cell, ...]]:
    """The cells of each suite: of the arms and views that are named; where none is, the folder's, or else
    the default arms on the suite's default views. Raises ConfigurationError."""
    from evals.views import check_view

    arms = arms_of(args.arm or DEFAULT_ARMS, args.sweep)
    cells: dict[str, tuple[Cell, ...]] = {}
    for suite in suites:
        if not (args.arm or args.view or args.sweep) and before is not None and suite.name in before.suites:
            cells[suite.name] = tuple(map(Cell.parse, before.suites[suite.name].cells))
            continue
        views = tuple(map(ViewSpec.parse, args.view or suite.default_views))
        if not suite.has_tools and any(view.method == "signature" for view in views):
            raise ConfigurationError(
                f"suite={suite.name!r} has no tools, so the view 'signature' would shorten nothing; take "
                "another, such as extract@0.3"
            )
        cells[suite.name] = cells_of(arms, views)
    for view in {str(cell.view): cell.view for several in cells.values() for cell in several}.values():
        if view is not None:
            check_view(view)
    return cells


def load_data(args: argparse.Namespace, suites: Sequence[Suite]) -> list[Data]:
    """Every suite's release. Raises ConfigurationError where one can't be had, or is not fit to be asked."""
    paths = data_paths(args.data, [suite.name for suite in suites])
    loaded = []
    for suite in suites:
        samples = tuple(checked_ids(suite.name, suite.load(paths.get(suite.name))))
        loaded.append(Data(suite, samples, fingerprint(samples), gold_fingerprint(samples)))
    return loaded


def seed_of(args: argparse.Namespace, before: Plan | None) -> int:
    """The seed that is given, or the folder's, or 0."""
    if args.seed is not None:
        return int(args.seed)
    return int(before.options.get("seed", 0)) if before is not None else 0


def ask(
    args: argparse.Namespace, data: Sequence[Data], cells: dict[str, tuple[Cell, ...]], before: Plan | None
) -> list[Asked]:
    """What is to be asked. Where the command chooses no samples, the folder's are kept.

    Raises ConfigurationError where an id, a group or a value does not exist, or a suite is left without any
    sample.
    """
    ids = read_ids(args.ids) if args.ids else None
    only = only_of(args.only)
    seed = seed_of(args, before)
    if ids is not None:
        unknown = ids - {sample.id for part in data for sample in part.samples}
        if unknown:
            named = ", ".join(sorted(unknown)[:5])
            raise ConfigurationError(
                f"--ids {args.ids}: {len(unknown)} of the ids are in no suite here: {named}"
            )
    asked = []
    for part in data:
        name = part.suite.name
        missing = missing_groups(part.samples, only)
        if missing is not None:
            raise ConfigurationError(f"--only: in {name}, {missing}")
        if not (ids or only or args.samples) and before is not None and name in before.suites:
            asked.append(asked_before(part, before, cells[name]))
            continue
        samples = chosen(
            name,
            part.samples,
            num_samples=args.samples if isinstance(args.samples, int) else None,
            ids=ids,
            only=only,
            seed=seed,
        )
        if not samples:
            raise ConfigurationError(f"{name}: none of its {len(part.samples)} samples is chosen")
        asked.append(Asked(part, samples, cells[name]))
    return asked


def asked_before(data: Data, before: Plan, cells: tuple[Cell, ...]) -> Asked:
    """The samples that the folder asks already, as far as the data has them, on the cells."""
    by_id = {sample.id: sample for sample in data.samples}
    samples = (by_id.get(name) for name in before.suites[data.suite.name].samples)
    return Asked(data, tuple(sample for sample in samples if sample is not None), cells)


def selection(args: argparse.Namespace, before: Plan | None) -> str:
    """How samples were chosen, for the run's provenance."""
    parts = [f"samples={args.samples}"] if args.samples else []
    parts += [f"ids of {Path(args.ids).name}"] if args.ids else []
    parts += args.only
    return ", ".join(parts) or ("all" if before is None else "as before")
