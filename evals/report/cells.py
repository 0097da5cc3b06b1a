"""One cell's numbers: its mean, its differences to Floor and Ceiling, and what it cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import zip_longest

from ..cells import IDENTICAL
from ..costs import RecordCosts
from ..records import Call, Record
from ..statistics import (
    Estimate,
    PairedTest,
    RecoveredShare,
    compare_pairs,
    mean_estimate,
    mean_ratio,
    recovered_share,
    wilson,
)
from ..suite import Suite
from .indexed import Indexed
from .results import CellResult, CostResult, Figure

__all__ = ["against", "cell_result", "mean_of", "share_of"]

ROLES = ("verifier", "base", "drafter")


def cell_result(
    data: Indexed, cell: str, *, floor: str | None, drafter: str | None, ceiling: str | None
) -> CellResult:
    """Everything about a cell, against the Floor on its view, the drafter alone and Ceiling."""
    records = data.cells[cell]
    failures = [record.failure for record in records.values() if record.failure is not None]
    judged = sum(failure.stage == "score" for failure in failures)
    is_control = data.parsed[cell].arm.name == IDENTICAL
    return CellResult(
        cell=cell,
        num=len(records),
        num_missing=len(data.samples) - len(records),
        num_failed=len(failures) - judged,
        num_judge_failed=judged,
        mean=mean_of(data, cell, list(records)),
        figure=data.kept(f"figure {cell}", lambda: _figure(data, cell)),
        to_floor=against(data, cell, floor),
        to_drafter=against(data, cell, drafter),
        to_ceiling=against(data, cell, ceiling),
        recovered=share_of(data, cell, floor, ceiling),
        same_text=_same_text(data, cell, ceiling) if is_control and ceiling else None,
        costs=data.kept(f"costs {cell}", lambda: _costs(data, cell, ceiling)),
    )


def mean_of(data: Indexed, cell: str, samples: Sequence[str]) -> Estimate:
    """The mean over these samples: Wilson's interval where binary and independent, else the bootstrap's."""
    values, clusters = data.column(cell, samples), data.clusters(samples)
    if not values:
        return Estimate(0.0, None, None, 0, "no samples")
    if data.is_binary and clusters is None:
        return wilson(round(sum(values)), len(values))
    return mean_estimate(values, clusters)


def against(
    data: Indexed, cell: str, other: str | None, samples: Sequence[str] | None = None
) -> PairedTest | None:
    """The cell against another, over the samples both answered (of those given); None against itself."""
    if other is None or other == cell:
        return None
    common = data.common(cell, other)
    if samples is not None:
        wanted = set(samples)
        common = [sample for sample in common if sample in wanted]
    if not common:
        return None
    return compare_pairs(
        data.column(cell, common),
        data.column(other, common),
        clusters=data.clusters(common),
        is_binary=data.is_binary,
    )


def share_of(data: Indexed, cell: str, floor: str | None, ceiling: str | None) -> RecoveredShare | None:
    """The recovered share; None for Floor and Ceiling themselves, or without them."""
    if floor is None or ceiling is None or cell in (floor, ceiling):
        return None
    common = data.common(cell, floor, ceiling)
    if not common:
        return None
    arm, low, high = (data.column(name, common) for name in (cell, floor, ceiling))
    return recovered_share(arm, low, high, clusters=data.clusters(common))


def _same_text(data: Indexed, cell: str, ceiling: str) -> Estimate | None:
    """How often the text (and the calls) equal Ceiling's; a failure on either side is no equality."""
    common = data.common(cell, ceiling)
    if not common:
        return None
    same = sum(_text(data.cells[cell][s]) == _text(data.cells[ceiling][s]) is not None for s in common)
    return wilson(same, len(common))


def _text(record: Record) -> tuple[str, str] | None:
    if record.output is None:
        return None
    last = record.output.calls[-1].text if record.output.calls else ""
    return record.output.answer, last


def _figure(data: Indexed, cell: str) -> Figure | None:
    """The suite's own aggregate where it is another than the mean, with a bootstrap interval."""
    suite, records = data.suite, list(data.cells[cell].values())
    if suite is None or type(suite).figure is Suite.figure or not records:
        return None
    result = suite.figure(records)
    draws = _figures(suite, data, cell)
    if draws is None:
        return Figure(Estimate(result.value, None, None, len(records), "too few samples"), dict(result.parts))
    import numpy as np

    low, high = (float(np.quantile(draws, tail)) for tail in (0.025, 0.975))
    return Figure(Estimate(result.value, low, high, len(records)), dict(result.parts))


def _figures(suite: Suite, data: Indexed, cell: str) -> list[float] | None:
    """The aggregate over drawn samples (whole clusters); fewer draws where there are many records."""
    import numpy as np

    units: dict[str, list[Record]] = {}
    for sample, record in data.cells[cell].items():
        units.setdefault(data.cluster_of[sample] if data.cluster_of else sample, []).append(record)
    if len(units) < 2:
        return None
    rng, drawn = np.random.default_rng(0), list(units.values())
    num_draws = max(100, min(1_000, 100_000 // len(data.cells[cell])))
    return [
        suite.figure([record for i in rng.integers(0, len(drawn), len(drawn)) for record in drawn[i]]).value
        for _ in range(num_draws)
    ]


def _costs(data: Indexed, cell: str, ceiling: str | None) -> CostResult:
    outputs = [record.output for record in data.cells[cell].values() if record.output is not None]
    calls = [call for output in outputs for call in output.calls]
    own = [cost for cost in data.costs[cell].values() if cost is not None]
    computed = [call.computed_tokens for call in calls]
    compressed = sum(call.compressed_tokens or 0 for call in calls)
    known_views = [call for call in calls if call.compressed_tokens is not None]
    peaks = [output.peak_memory_bytes for output in outputs if output.peak_memory_bytes is not None]
    count = len(outputs) or 1
    return CostResult(
        acceptance=_over(sum(c.num_accepted for c in calls), sum(c.num_drafted for c in calls)),
        acceptance_per_position=_per_position(calls),
        tokens_per_block=_over(
            sum(c.num_accepted + c.num_fused + c.num_bonus for c in calls), sum(c.num_blocks for c in calls)
        ),
        mean_divergence=_over(sum(c.divergence_sum for c in calls), sum(c.num_judged for c in calls)),
        view_ratio=_over(compressed, sum(c.full_tokens or 0 for c in known_views)),
        view_tokens=_over(compressed, len(known_views)),
        computed_tokens=None
        if not computed or None in computed
        else {role: sum(getattr(tokens, role) for tokens in computed) / count for role in ROLES},
        cached_tokens={role: sum(getattr(c.cached_tokens, role) for c in calls) / count for role in ROLES},
        prefill_flops=_relative(data, cell, ceiling, lambda cost: cost.prefill_flops),
        total_flops=_relative(data, cell, ceiling, lambda cost: cost.total_flops),
        wall_clock=_relative(data, cell, ceiling, lambda cost: cost.elapsed_s),
        elapsed_s=_mean([cost.elapsed_s for cost in own]),
        time_to_first_token_s=_mean(
            [cost.time_to_first_token_s for cost in own if cost.time_to_first_token_s is not None]
        ),
        compress_s=_mean([cost.compress_s for cost in own]),
        peak_memory_bytes=max(peaks, default=None),
    )


def _relative(
    data: Indexed, cell: str, ceiling: str | None, part: Callable[[RecordCosts], float | None]
) -> Estimate | None:
    """A cost over Ceiling's, over the samples where both are known."""
    if ceiling is None:
        return None
    pairs: dict[str, tuple[float, float]] = {}
    for sample in data.common(cell, ceiling):
        mine, theirs = data.costs[cell][sample], data.costs[ceiling][sample]
        if mine is not None and theirs is not None:
            left, right = part(mine), part(theirs)
            if left is not None and right is not None:
                pairs[sample] = (left, right)
    if not pairs:
        return None
    left_column, right_column = ([pair[i] for pair in pairs.values()] for i in (0, 1))
    if cell == ceiling:
        return Estimate(1.0, None, None, len(pairs), "the measure")
    return mean_ratio(left_column, right_column, data.clusters(list(pairs)))


def _per_position(calls: Sequence[Call]) -> tuple[float, ...]:
    drafted = [sum(column) for column in zip_longest(*(c.drafted_per_position for c in calls), fillvalue=0)]
    accepted = [sum(column) for column in zip_longest(*(c.accepted_per_position for c in calls), fillvalue=0)]
    return tuple(a / d for a, d in zip(accepted, drafted, strict=False) if d)


def _over(top: float, bottom: float) -> float | None:
    return top / bottom if bottom else None


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
