"""`run --dry-run`: how much a run would ask, without a model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asymspec_agents.cli.table import print_table
from asymspec_agents.tokens import EstimateCounter

from ..cells import Cell
from ..sample import LongPart, Sample
from .asking import Asked

__all__ = ["estimated_tokens", "print_plan"]

_COUNTER = EstimateCounter()


def print_plan(asked: Iterable[Asked], recorded: Mapping[tuple[str, str, str], Any]) -> None:
    """Prints each cell with its samples, what of them is recorded, and an estimate of the tokens to read."""
    rows = []
    totals = [0, 0, 0]
    for part in asked:
        name = part.data.suite.name
        for cell in part.cells:
            todo = [sample for sample in part.samples if (name, sample.id, str(cell)) not in recorded]
            counts = (len(part.samples), len(part.samples) - len(todo), estimated_tokens(todo, cell))
            totals = [total + count for total, count in zip(totals, counts, strict=True)]
            rows.append((name, str(cell), *(f"{count:,}" for count in counts)))
    heads = ("suite", "cell", "samples", "recorded", "prompt tokens to read, about")
    print_table(heads, rows, ("", "total", *(f"{total:,}" for total in totals)))


def estimated_tokens(samples: Sequence[Sample], cell: Cell) -> int:
    """The tokens of one call for each sample, in the view that the cell's verifier (or drafter alone) reads.

    An estimate, without chat template; agents make several calls.
    """
    return sum(_of_sample(sample, cell) for sample in samples)


def _of_sample(sample: Sample, cell: Cell) -> int:
    total = sum(_COUNTER.count(text) for message in sample.messages for text in message.texts())
    total += sum(_COUNTER.count(json.dumps(tool.wire())) for tool in sample.tools)
    if cell.view is None or cell.view.size is None:
        return total
    for place in sample.long_parts:
        num_tokens = _COUNTER.count(_text(sample, place))
        total += min(0, cell.view.target_tokens(num_tokens) - num_tokens)
    return total


def _text(sample: Sample, place: LongPart) -> str:
    content = sample.messages[place.message].content
    if place.part is None:
        return content if isinstance(content, str) else ""
    return (content[place.part].text or "") if isinstance(content, tuple) else ""
