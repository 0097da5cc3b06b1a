"""Where, when and with what a run was made, as a report shows it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..plan import Plan
from .safe import clipped

__all__ = ["beside", "provenance_of"]

_SHOWN = 12  # characters of a fingerprint
_BESIDE = (
    "date",
    "cpu",
    "system.device",
    "revision",
    "asymspec_agents",
    "torch",
    "system.server",
    "system.verifier",
    "system.drafter",
    "system.dtype",
    "num_parallel",
    "dataset",
)


def provenance_of(plan: Plan, suite: str) -> dict[str, str]:
    """Suite, date, machine, versions, models and the dataset's fingerprint as flat text, by dotted name.

    A run that was started several times gives every different value, in order.
    """
    flat: dict[str, dict[str, None]] = {}
    for start in plan.provenance:
        for name, text in _flat("", start):
            flat.setdefault(name, {})[text] = None
    asked = plan.suites.get(suite)
    data: dict[str, str] = {"suite": suite}
    if asked is not None:
        data |= {
            "dataset": f"{asked.num_samples} samples, sha256 {asked.fingerprint[:_SHOWN]}…, "
            f"golds {asked.gold_fingerprint[:_SHOWN]}…",
            "asked": f"{len(asked.samples)} samples, {len(asked.cells)} cells",
            **({"judge": asked.judge} if asked.judge else {}),
        }
    return {
        **data,
        **dict(_flat("system", plan.system)),
        **dict(_flat("options", plan.options)),
        **{name: "; ".join(texts) for name, texts in flat.items()},
    }


def beside(facts: Mapping[str, str]) -> str:
    """The facts that stand beside every table, in one line; all of them are told once a suite."""
    shown = [(name.rpartition(".")[2], facts[name]) for name in _BESIDE if name in facts]
    return " · ".join(f"{name} {clipped(value, 160)}" for name, value in shown)


def _flat(name: str, value: Any) -> list[tuple[str, str]]:
    if isinstance(value, Mapping):
        return [pair for key in value for pair in _flat(f"{name}.{key}" if name else str(key), value[key])]
    if isinstance(value, list | tuple):
        value = ", ".join(map(str, value))
    return [] if value is None or value == "" else [(name, str(value))]
