"""What a run's plan says that a report needs; a plan without an entry is answered with what is known."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .costing import Params

__all__ = ["params_of", "planned_samples", "provenance_of"]


def params_of(plan: Mapping[str, Any]) -> Params | None:
    """The models' parameters, where the plan has both."""
    params = plan.get("params")
    if not isinstance(params, Mapping):
        return None
    verifier, drafter = params.get("verifier"), params.get("drafter")
    return Params(int(verifier), int(drafter)) if verifier and drafter else None


def planned_samples(plan: Mapping[str, Any], suite: str) -> tuple[str, ...]:
    """The ids that the run is to answer, in order; empty where the plan has none."""
    samples = plan.get("samples")
    ids = samples.get(suite) if isinstance(samples, Mapping) else None
    return tuple(map(str, ids)) if isinstance(ids, list) else ()


def provenance_of(plan: Mapping[str, Any]) -> dict[str, str]:
    """Date, machine, versions, models and datasets as flat text, by dotted name."""
    return dict(_flat("", plan.get("provenance", {})))


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [pair for key in value for pair in _flat(f"{name}.{key}" if name else str(key), value[key])]
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return [] if value is None else [(name, str(value))]
