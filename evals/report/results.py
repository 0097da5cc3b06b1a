"""What a report says, as numbers: every rendering and `summary.json` are made from these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..statistics import Estimate, PairedTest, RecoveredShare, Trend

__all__ = [
    "CellResult",
    "CostResult",
    "Figure",
    "GroupResult",
    "GroupRow",
    "Section",
    "SuiteResult",
    "Sweep",
    "SweepPoint",
]


@dataclass(frozen=True, slots=True)
class Figure:
    """A suite's official aggregate, in its own unit, with its subtotals."""

    estimate: Estimate
    parts: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CostResult:
    """What a cell cost. Ratios are to Ceiling over the samples both answered; None is unknown.

    Tokens are a sample's mean, by reader; `view_ratio` is compressed over full tokens.
    """

    acceptance: float | None
    acceptance_per_position: tuple[float, ...]
    tokens_per_block: float | None
    mean_divergence: float | None
    view_ratio: float | None
    view_tokens: float | None
    computed_tokens: Mapping[str, float] | None
    cached_tokens: Mapping[str, float]
    prefill_flops: Estimate | None
    total_flops: Estimate | None
    wall_clock: Estimate | None
    elapsed_s: float | None
    time_to_first_token_s: float | None
    compress_s: float | None
    peak_memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class CellResult:
    """A cell on one suite. `num` samples have a record, `num_missing` of the plan have none yet.

    `num_failed` (no answer) and `num_judge_failed` (no grade) are among `num` and count as 0. `same_text` is
    the share of Ceiling's texts that the no-harm control repeats.
    """

    cell: str
    num: int
    num_missing: int
    num_failed: int
    num_judge_failed: int
    mean: Estimate
    figure: Figure | None
    to_floor: PairedTest | None
    to_drafter: PairedTest | None
    to_ceiling: PairedTest | None
    recovered: RecoveredShare | None
    same_text: Estimate | None
    costs: CostResult


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One value of a group: the mean of each cell over it, and AsymSpec's difference to Floor."""

    value: str
    num: int
    means: Mapping[str, Estimate]
    to_floor: PairedTest | None


@dataclass(frozen=True, slots=True)
class GroupResult:
    """Results by the values of one group; `num_left_out` values beyond the largest are not shown."""

    name: str
    rows: tuple[GroupRow, ...]
    num_left_out: int


@dataclass(frozen=True, slots=True)
class Section:
    """All cells that read one compressed view, beside those that read the full one only."""

    view: str | None
    main: str | None
    rows: tuple[CellResult, ...]
    groups: tuple[GroupResult, ...]


@dataclass(frozen=True, slots=True)
class SweepPoint:
    """An arm at one size or option value; `view_tokens` is the measured mean size."""

    x: float
    cell: str
    mean: Estimate
    floor: Estimate | None
    recovered: RecoveredShare | None
    view_tokens: float | None


@dataclass(frozen=True, slots=True)
class Sweep:
    """Points of one arm along the size of a view, or along an option. `statement` is what the numbers say."""

    name: str
    over: str
    arm: str
    points: tuple[SweepPoint, ...]
    trend: Trend | None
    statement: str


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """One suite of a run. `shows_texts` is False where its terms, or not knowing it, forbid to show them."""

    name: str
    title: str
    metric: str
    is_binary: bool
    shows_texts: bool
    num_samples: int
    num_clusters: int | None
    sections: tuple[Section, ...]
    sweeps: tuple[Sweep, ...]
    notes: tuple[str, ...]
