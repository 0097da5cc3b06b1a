"""What answers cost, in FLOPs by AsymSpec's cost model, and relative to Ceiling on the same samples.

Source: AsymSpec (arXiv 2608.26004), cost model: FLOPs ≈ 2·params·tokens, of the tokens really computed. A
local engine says how many positions each model computed. A server does not: what it computed is then
modelled, as the prompt less its cached part, and for each block K+1 positions of the verifier and of each of
the drafter's passes (one position a token where nothing is drafted).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.trace import RoleTokens
from asymspec_agents.trace.metrics import ROLES

from .cells import Cell
from .records import Call, Record

__all__ = ["CellCost", "ModelSizes", "RelativeCost", "Work", "cell_costs", "relative_costs", "work_of"]

CEILING = "ceiling"
_NOTHING = RoleTokens()


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Numbers of parameters, tied embeddings once; None where unknown. Raises ConfigurationError."""

    verifier: int | None = None
    drafter: int | None = None

    def __post_init__(self) -> None:
        for name in ("verifier", "drafter"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f"{name}_params={value!r} is not a positive number of parameters")

    @classmethod
    def of(cls, identity: Mapping[str, Any]) -> ModelSizes:
        """The sizes in a system's identity."""
        return cls(identity.get("verifier_params"), identity.get("drafter_params"))

    def flops(self, tokens: RoleTokens) -> float | None:
        """2·params·tokens, summed over who read them; None where a reader's size is unknown."""
        total = 0.0
        for role in ROLES:
            num_tokens = getattr(tokens, role)
            size = self.verifier if role == "verifier" else self.drafter
            if num_tokens and size is None:
                return None
            total += 2.0 * (size or 0) * num_tokens
        return total


@dataclass(frozen=True, slots=True)
class Work:
    """Positions computed, by who read them: of prompts, and in decoding.

    `extra_flops` are those of models that made views. `is_modelled`: a server did not say what it computed.
    """

    prefill: RoleTokens = _NOTHING
    decode: RoleTokens = _NOTHING
    extra_flops: float = 0.0
    is_modelled: bool = False

    def __add__(self, other: Work) -> Work:
        return Work(
            self.prefill + other.prefill,
            self.decode + other.decode,
            self.extra_flops + other.extra_flops,
            self.is_modelled or other.is_modelled,
        )


def work_of(call: Call, cell: Cell) -> Work:
    """What one call computed.

    The base pass may share the beginning of its view with the drafter's other pass, so its prefill is what it
    computed beyond its decoding, which takes as many positions as the drafter's.
    """
    uncached = _less(call.prompt_tokens, call.cached_tokens)
    computed = call.computed_tokens
    if computed is None:
        return Work(uncached, _modelled_decoding(call, cell), call.extra_flops, is_modelled=True)
    decode = {
        role: max(0, getattr(computed, role) - getattr(uncached, role)) for role in ("verifier", "drafter")
    }
    decode["base"] = min(computed.base, decode["drafter"])
    decoding = RoleTokens(**decode)
    return Work(_less(computed, decoding), decoding, call.extra_flops)


def _modelled_decoding(call: Call, cell: Cell) -> RoleTokens:
    if not call.num_drafted:
        readers = {role: bool(getattr(call.prompt_tokens, role)) for role in ROLES}
        return RoleTokens(**{role: call.completion_tokens * reads for role, reads in readers.items()})
    positions = call.num_blocks * (cell.arm.asymspec_options().num_draft_tokens + 1)
    return RoleTokens(verifier=positions, drafter=positions, base=positions if call.prompt_tokens.base else 0)


def _less(tokens: RoleTokens, other: RoleTokens) -> RoleTokens:
    return RoleTokens(**{role: max(0, getattr(tokens, role) - getattr(other, role)) for role in ROLES})


@dataclass(frozen=True, slots=True)
class CellCost:
    """What some records of one cell cost together.

    FLOPs are None where a model's size is unknown; `extra_flops` are part of the total, not of prefill or
    decode. `peak_memory_bytes` is the largest of any record. `time_to_first_token_s` is the mean over the
    calls that tell one. `num_failed` records left nothing to count.
    """

    num_records: int
    num_failed: int
    num_calls: int
    work: Work
    prefill_flops: float | None
    decode_flops: float | None
    extra_flops: float
    elapsed_s: float
    compress_s: float
    time_to_first_token_s: float | None
    peak_memory_bytes: int | None
    prompt_tokens: RoleTokens
    cached_tokens: RoleTokens
    completion_tokens: int

    @property
    def total_flops(self) -> float | None:
        """Prefill, decoding and what made the views."""
        if self.prefill_flops is None or self.decode_flops is None:
            return None
        return self.prefill_flops + self.decode_flops + self.extra_flops


def cell_costs(records: Iterable[Record], sizes: ModelSizes) -> dict[str, CellCost]:
    """The costs of each cell in the records, by its name."""
    by_cell: dict[str, list[Record]] = {}
    for record in records:
        by_cell.setdefault(record.cell, []).append(record)
    return {name: _cost(Cell.parse(name), own, sizes) for name, own in by_cell.items()}


def _cost(cell: Cell, records: list[Record], sizes: ModelSizes) -> CellCost:
    outputs = [record.output for record in records if record.output is not None]
    calls = [call for output in outputs for call in output.calls]
    work = sum((work_of(call, cell) for call in calls), Work())
    firsts = [call.time_to_first_token_s for call in calls if call.time_to_first_token_s is not None]
    peaks = [output.peak_memory_bytes for output in outputs if output.peak_memory_bytes is not None]
    return CellCost(
        num_records=len(records),
        num_failed=len(records) - len(outputs),
        num_calls=len(calls),
        work=work,
        prefill_flops=sizes.flops(work.prefill),
        decode_flops=sizes.flops(work.decode),
        extra_flops=work.extra_flops,
        elapsed_s=sum(output.elapsed_s for output in outputs),
        compress_s=sum(call.compress_s for call in calls),
        time_to_first_token_s=sum(firsts) / len(firsts) if firsts else None,
        peak_memory_bytes=max(peaks, default=None),
        prompt_tokens=sum((call.prompt_tokens for call in calls), _NOTHING),
        cached_tokens=sum((call.cached_tokens for call in calls), _NOTHING),
        completion_tokens=sum(call.completion_tokens for call in calls),
    )


@dataclass(frozen=True, slots=True)
class RelativeCost:
    """A cell's cost over Ceiling's, on the `num_samples` that both answered; None where there is no figure.

    Each is a ratio of sums. `prefill` and `total` are of FLOPs, `total` with what made the views; `elapsed`
    is wall time, `time_to_first_token` the ratio of means, `peak_memory` of the largest figures.
    """

    num_samples: int
    prefill: float | None
    total: float | None
    elapsed: float | None
    time_to_first_token: float | None
    peak_memory: float | None


def relative_costs(
    records: Iterable[Record], sizes: ModelSizes, *, baseline: str = CEILING
) -> dict[str, RelativeCost]:
    """Each cell's cost relative to the baseline's in the same run, by the cell's name.

    Only samples that both answered count, so that a cell that fails where answers are long looks no cheaper.
    No cell has a figure where the baseline was not run.
    """
    answered: dict[str, dict[tuple[str, str], Record]] = {}
    for record in records:
        own = answered.setdefault(record.cell, {})
        if record.output is not None:
            own[record.suite, record.sample] = record
    base = answered.get(baseline, {})
    relative: dict[str, RelativeCost] = {}
    for name, own in answered.items():
        shared = [key for key in own if key in base]
        cost = _cost(Cell.parse(name), [own[key] for key in shared], sizes)
        ceiling = _cost(Cell.parse(baseline), [base[key] for key in shared], sizes)
        relative[name] = RelativeCost(
            num_samples=len(shared),
            prefill=_ratio(cost.prefill_flops, ceiling.prefill_flops),
            total=_ratio(cost.total_flops, ceiling.total_flops),
            elapsed=_ratio(cost.elapsed_s, ceiling.elapsed_s),
            time_to_first_token=_ratio(cost.time_to_first_token_s, ceiling.time_to_first_token_s),
            peak_memory=_ratio(cost.peak_memory_bytes, ceiling.peak_memory_bytes),
        )
    return relative


def _ratio(part: float | None, whole: float | None) -> float | None:
    return None if part is None or not whole else part / whole
