"""The records of one suite by cell and sample, with their values, clusters and costs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from asymspec_agents.errors import ConfigurationError, MissingDependencyError

from ..cells import Cell
from ..costs import ModelSizes, RecordCosts, record_costs
from ..plan import SuitePlan
from ..records import Record
from ..suite import Suite
from ..suites import suite_named

__all__ = ["CLUSTER", "Indexed", "index_records", "shows_texts", "slim", "suite_or_none"]

T = TypeVar("T")

CLUSTER = "cluster"
"""The group that says which samples belong together; no group to report by."""


@dataclass(frozen=True)
class Indexed:
    """`cells` maps a cell's name to its records by sample; `samples` are all ids, planned ones first."""

    name: str
    suite: Suite | None
    metric: str
    samples: tuple[str, ...]
    cells: Mapping[str, Mapping[str, Record]]
    sizes: ModelSizes
    parsed: Mapping[str, Cell] = field(default_factory=dict)
    _kept: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def kept(self, name: str, compute: Callable[[], T]) -> T:
        """What was computed under that name before: cells on the full view stand in every section."""
        if name not in self._kept:
            self._kept[name] = compute()
        found: T = self._kept[name]
        return found

    @cached_property
    def values(self) -> dict[str, dict[str, float]]:
        """Each cell's values by sample; a failure is 0."""
        return {
            cell: {sample: self.value(record) for sample, record in records.items()}
            for cell, records in self.cells.items()
        }

    @cached_property
    def costs(self) -> dict[str, dict[str, RecordCosts | None]]:
        """Each cell's costs by sample."""
        return {
            cell: {
                sample: record_costs(record, self.parsed[cell], self.sizes)
                for sample, record in records.items()
            }
            for cell, records in self.cells.items()
        }

    @cached_property
    def cluster_of(self) -> dict[str, str] | None:
        """Each sample's cluster; None where no two samples share one."""
        found = {
            sample: record.groups.get(CLUSTER, f"\0{sample}")
            for records in self.cells.values()
            for sample, record in records.items()
        }
        return found if len(set(found.values())) < len(found) else None

    @cached_property
    def is_binary(self) -> bool:
        """Whether every value is 0 or 1, and the suite says so where it is known."""
        if self.suite is not None and not self.suite.is_binary:
            return False
        return all(value in (0.0, 1.0) for values in self.values.values() for value in values.values())

    def value(self, record: Record) -> float:
        """A record's metric; 0 where it failed. Raises ConfigurationError where the score lacks it."""
        if self.suite is not None:
            try:
                return self.suite.value(record)
            except KeyError as error:
                raise ConfigurationError(
                    f"the score of {' · '.join(record.key)} has no value {error}; score the run anew"
                ) from error
        return 0.0 if record.score is None else record.score.values.get(self.metric, 0.0)

    def common(self, *cells: str) -> list[str]:
        """The samples that all of the cells have a record of, in order."""
        return [s for s in self.samples if all(s in self.cells[cell] for cell in cells)]

    def column(self, cell: str, samples: Sequence[str]) -> list[float]:
        """A cell's values of these samples."""
        values = self.values[cell]
        return [values[sample] for sample in samples]

    def clusters(self, samples: Sequence[str]) -> list[str] | None:
        """The samples' clusters; None where all are their own."""
        if self.cluster_of is None:
            return None
        found = [self.cluster_of[sample] for sample in samples]
        return found if len(set(found)) < len(found) else None


def suite_or_none(name: str) -> Suite | None:
    """The suite, or None where it is unknown here or needs what is not installed."""
    try:
        return suite_named(name)
    except (ConfigurationError, MissingDependencyError, ImportError):
        return None


def index_records(
    name: str, records: Iterable[Record], asked: SuitePlan | None, sizes: ModelSizes
) -> Indexed:
    """The records of suite `name` (others are ignored); give slim ones of a big run."""
    suite = suite_or_none(name)
    cells: dict[str, dict[str, Record]] = {cell: {} for cell in (asked.cells if asked is not None else ())}
    samples = dict.fromkeys(asked.samples if asked is not None else ())
    metric = suite.metric if suite is not None else ""
    for record in records:
        if record.suite == name:
            cells.setdefault(record.cell, {})[record.sample] = record
            samples.setdefault(record.sample)
            if not metric and record.score is not None and record.score.values:
                metric = next(iter(record.score.values))
    parsed = {cell: Cell.parse(cell) for cell in cells}
    ordered = {
        cell: {sample: cells[cell][sample] for sample in samples if sample in cells[cell]}
        for cell in sorted(cells, key=lambda c: _order(parsed[c]))
    }
    in_order = {cell: parsed[cell] for cell in ordered}
    return Indexed(name, suite, metric or "score", tuple(samples), ordered, sizes, in_order)


def shows_texts(data: Indexed) -> bool:
    """Whether a report may show the suite's texts: not where its terms, or not knowing them, forbid it."""
    return data.suite is not None and not getattr(data.suite, "is_restricted", False)


def slim(record: Record) -> Record:
    """The record without its texts, which may be long; a call's text is replaced by its digest."""
    if record.output is None:
        return record
    calls = tuple(
        call.model_copy(
            update={"segments": (), "text": hashlib.sha256(call.text.encode("utf-8", "replace")).hexdigest()}
        )
        for call in record.output.calls
    )
    output = record.output.model_copy(update={"calls": calls, "views": (), "trajectory": ()})
    return record.model_copy(update={"output": output})


_FIRST = ("floor", "drafter", "asymspec", "paper")
_LAST = ("symmetric_full", "symmetric_compressed", "scd", "rapid", "identical", "ceiling")


def _order(cell: Cell) -> tuple[Any, ...]:
    """Floor, the drafter beside AsymSpec, other modes, other methods, the control, Ceiling."""
    arm = cell.arm.name
    place = _FIRST.index(arm) if arm in _FIRST else 100 + _LAST.index(arm) if arm in _LAST else 50
    options = sorted((name, str(value)) for name, value in cell.arm.options.items())
    view = (cell.view.method, -(cell.view.size or 0)) if cell.view is not None else ("", 0)
    return place, arm, options, view
