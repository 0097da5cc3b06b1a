"""All numbers of a run, from its records."""

from __future__ import annotations

from collections.abc import Sequence

from ..cells import BASELINES, IDENTICAL
from ..costs import ModelSizes
from ..records import Record
from ..run_folder import Run
from .cells import against, cell_result, mean_of
from .indexed import CLUSTER, Indexed, index_records, shows_texts, slim
from .results import CellResult, GroupResult, GroupRow, Section, SuiteResult
from .sweeps import floor_of, named_cell, sweeps_of

__all__ = ["MAX_GROUP_VALUES", "RESCORING", "analyse", "indexed_suites", "main_cell"]

MAX_GROUP_VALUES = 20
RESCORING = "A new scoring has begun and not ended: old and new scores stand side by side."
_MAX_GROUPS = 12


def indexed_suites(run: Run) -> tuple[Indexed, ...]:
    """The run's records by suite, in the plan's order; suites without a record yet are left out."""
    sizes = ModelSizes.of(run.plan.system)
    records: dict[str, list[Record]] = {name: [] for name in run.plan.suites}
    for record in run.records():
        records.setdefault(record.suite, []).append(slim(record))
    return tuple(
        index_records(name, found, run.plan.suites.get(name), sizes)
        for name, found in records.items()
        if found
    )


def analyse(data: Indexed, *, is_rescoring: bool = False) -> SuiteResult:
    """One suite's results; `is_rescoring` where a new scoring of it has begun and not ended."""
    clusters = data.cluster_of
    suite = data.suite
    return SuiteResult(
        name=data.name,
        title=suite.title if suite is not None else data.name,
        metric=data.metric,
        is_binary=data.is_binary,
        shows_texts=shows_texts(data),
        num_samples=len(data.samples),
        num_clusters=None if clusters is None else len(set(clusters.values())),
        sections=tuple(_section(data, view) for view in _views(data)),
        sweeps=sweeps_of(data),
        notes=(*([RESCORING] if is_rescoring else []), *_notes(data)),
    )


def main_cell(data: Indexed, view: str | None) -> str | None:
    """The cell a reader looks for first: AsymSpec as it is by default, else the first mode on the view."""
    default = named_cell(data, "asymspec", view)
    if default is not None or view is None:
        return default
    for cell, parsed in data.parsed.items():
        if str(parsed.view) == view and parsed.arm.name not in (*BASELINES, IDENTICAL):
            return cell
    return None


def _views(data: Indexed) -> Sequence[str | None]:
    """The compressed views, of one method from the least severe on; only the full one where there is none."""
    found = {cell.view: str(cell.view) for cell in data.parsed.values() if cell.view is not None}
    ordered = sorted(found, key=lambda view: (view.method, -(view.size or 0)))
    return [found[view] for view in ordered] or [None]


def _section(data: Indexed, view: str | None) -> Section:
    floor = floor_of(data, view)
    drafter, ceiling = (named_cell(data, arm, None) for arm in ("drafter", "ceiling"))
    cells = [cell for cell, parsed in data.parsed.items() if parsed.view is None or str(parsed.view) == view]
    rows: list[CellResult] = [
        cell_result(data, cell, floor=floor, drafter=drafter, ceiling=ceiling) for cell in cells
    ]
    main = main_cell(data, view)
    return Section(view, main, tuple(rows), tuple(_groups(data, view, main)))


def _groups(data: Indexed, view: str | None, main: str | None) -> list[GroupResult]:
    by_name: dict[str, dict[str, set[str]]] = {}
    for records in data.cells.values():
        for sample, record in records.items():
            for name, value in record.groups.items():
                if name != CLUSTER:
                    by_name.setdefault(name, {}).setdefault(value, set()).add(sample)
    chosen = [
        floor_of(data, view),
        named_cell(data, "drafter", None),
        main,
        named_cell(data, "ceiling", None),
    ]
    cells = [cell for cell in chosen if cell is not None]
    return [
        _group(data, name, by_name[name], cells, main, floor_of(data, view))
        for name in sorted(by_name)[:_MAX_GROUPS]
        if len(by_name[name]) > 1
    ]


def _group(
    data: Indexed,
    name: str,
    samples_of: dict[str, set[str]],
    cells: Sequence[str],
    main: str | None,
    floor: str | None,
) -> GroupResult:
    kept = sorted(sorted(samples_of, key=lambda value: (-len(samples_of[value]), value))[:MAX_GROUP_VALUES])
    rows = []
    for value in kept:
        samples = [sample for sample in data.samples if sample in samples_of[value]]
        means = {cell: mean_of(data, cell, [s for s in samples if s in data.cells[cell]]) for cell in cells}
        to_floor = against(data, main, floor, samples) if main is not None else None
        rows.append(GroupRow(value, len(samples), means, to_floor))
    return GroupResult(name, tuple(rows), len(samples_of) - len(kept))


def _notes(data: Indexed) -> list[str]:
    notes = []
    missing = {cell: len(data.samples) - len(records) for cell, records in data.cells.items()}
    if any(missing.values()):
        unfinished = ", ".join(
            f"{cell} {len(data.samples) - num} of {len(data.samples)}" for cell, num in missing.items() if num
        )
        notes.append(
            f"The run is unfinished ({unfinished} answered). Each mean is over what its arm answered; "
            "differences and shares are over the samples that all arms concerned answered."
        )
    if data.suite is None:
        notes.append(
            f"The suite {data.name!r} is not known here, or needs what is not installed: the metric is the "
            "first value of its scores, official figures are left out, and no texts are shown."
        )
    if data.cluster_of is not None:
        notes.append(
            "Samples come in clusters: intervals draw whole clusters, and McNemar's test, which takes "
            "samples for independent, is left out."
        )
    if named_cell(data, "drafter", None) is None:
        notes.append("The drafter alone was not run: whether AsymSpec beats it cannot be seen here.")
    if named_cell(data, "ceiling", None) is None:
        notes.append("Ceiling was not run: there is no recovered share, and no cost relative to it.")
    sizes = {"verifier": data.sizes.verifier, "drafter": data.sizes.drafter}
    if unsized := [role for role, size in sizes.items() if size is None]:
        notes.append(
            f"The run does not tell the number of parameters of: {', '.join(unsized)}. The FLOPs of arms in "
            "which it takes part are unknown."
        )
    known = [cost for costs in data.costs.values() for cost in costs.values() if cost is not None]
    if any(cost.is_untold for cost in known):
        notes.append("A server told no usage of some answers: how many tokens they cost is unknown.")
    if any(cost.is_modelled and not cost.is_untold for cost in known):
        notes.append("A server did not say what it computed: FLOPs are modelled from its prompts and blocks.")
    return notes
