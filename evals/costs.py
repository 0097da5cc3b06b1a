"""What answers cost: FLOPs by AsymSpec's cost model, and seconds.

Source: AsymSpec (arXiv 2608.26004), cost model: FLOPs ≈ 2·params·tokens, of the tokens really computed. A
local engine says how many positions each model computed. A server does not: what it computed is then
modelled, as the prompt less its cached part, and for each block K+1 positions of the verifier and of each of
the drafter's passes (one position a token where nothing is drafted).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.trace import RoleTokens
from asymspec_agents.trace.metrics import ROLES

from .cells import Cell
from .records import Call, Record

__all__ = ["ModelSizes", "RecordCosts", "Work", "record_costs", "work_of"]

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

    `extra_flops` are those of models that made views. `is_modelled`: a server did not say what it computed;
    `is_untold`: not even how long prompts and answers were.
    """

    prefill: RoleTokens = _NOTHING
    decode: RoleTokens = _NOTHING
    extra_flops: float = 0.0
    is_modelled: bool = False
    is_untold: bool = False

    def __add__(self, other: Work) -> Work:
        return Work(
            self.prefill + other.prefill,
            self.decode + other.decode,
            self.extra_flops + other.extra_flops,
            self.is_modelled or other.is_modelled,
            self.is_untold or other.is_untold,
        )

    def flops(self, sizes: ModelSizes) -> tuple[float | None, float | None]:
        """Of prefill and of decoding; None where a size or what was read is unknown."""
        if self.is_untold:
            return None, None
        return sizes.flops(self.prefill), sizes.flops(self.decode)


def work_of(call: Call, cell: Cell) -> Work:
    """What one call computed.

    The base pass may share the beginning of its view with the drafter's other pass, so its prefill is what it
    computed beyond its decoding, which takes as many positions as the drafter's.
    """
    uncached = _less(call.prompt_tokens, call.cached_tokens)
    computed = call.computed_tokens
    if computed is None:
        if call.text and not any(getattr(call.prompt_tokens, role) for role in ROLES):
            return Work(extra_flops=call.extra_flops, is_modelled=True, is_untold=True)
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
class RecordCosts:
    """A record's sums over its calls; None is unknown; the time to a first token is a mean.

    `total_flops` include those of models that made views. `is_modelled`: a server didn't say what it did,
    `is_untold`: nor how long prompts and answers were.
    """

    prefill_flops: float | None
    total_flops: float | None
    is_modelled: bool
    is_untold: bool
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
    prefill, decode = work.flops(sizes)
    known = prefill is not None and decode is not None
    return RecordCosts(
        prefill_flops=prefill,
        total_flops=(prefill or 0) + (decode or 0) + work.extra_flops if known else None,
        is_modelled=work.is_modelled,
        is_untold=work.is_untold,
        elapsed_s=record.output.elapsed_s,
        time_to_first_token_s=sum(firsts) / len(firsts) if firsts else None,
        compress_s=sum(call.compress_s for call in calls),
    )
