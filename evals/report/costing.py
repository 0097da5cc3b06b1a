"""What one record cost: FLOPs by the cost model of `evals.costs`, and seconds."""

from __future__ import annotations

from dataclasses import dataclass

from ..cells import Cell
from ..costs import ModelSizes, Work, work_of
from ..records import Record

__all__ = ["RecordCosts", "record_costs"]


@dataclass(frozen=True, slots=True)
class RecordCosts:
    """A record's sums over its calls; None is unknown; the time to a first token is a mean.

    `total_flops` include those of models that made views. `is_modelled`: a server didn't say what it did.
    """

    prefill_flops: float | None
    total_flops: float | None
    is_modelled: bool
    elapsed_s: float
    time_to_first_token_s: float | None
    compress_s: float


def record_costs(record: Record, cell: Cell, sizes: ModelSizes) -> RecordCosts | None:
    """The costs of a record; None where there is no output."""
    if record.output is None:
        return None
    calls = record.output.calls
    work = sum((work_of(call, cell) for call in calls), Work())
    firsts = [call.time_to_first_token_s for call in calls if call.time_to_first_token_s is not None]
    prefill, decode = sizes.flops(work.prefill), sizes.flops(work.decode)
    known = prefill is not None and decode is not None
    return RecordCosts(
        prefill_flops=prefill,
        total_flops=(prefill or 0) + (decode or 0) + work.extra_flops if known else None,
        is_modelled=work.is_modelled,
        elapsed_s=record.output.elapsed_s,
        time_to_first_token_s=sum(firsts) / len(firsts) if firsts else None,
        compress_s=sum(call.compress_s for call in calls),
    )
