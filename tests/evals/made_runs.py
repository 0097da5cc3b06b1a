"""Run folders of made-up records whose true results are known."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asymspec_agents.trace.events import RoleTokens
from evals.plan import Plan, SuitePlan
from evals.records import Call, Failure, Output, Record, Score
from evals.run_folder import RunFolder
from evals.sample import Sample
from evals.suite import Judge, Result, Suite

__all__ = ["CELLS", "MadeSuite", "answered", "failed", "make_run", "sweep_records", "write_run"]

CELLS = ("floor on truncate@500", "drafter", "asymspec on truncate@500", "identical", "ceiling")


class MadeSuite(Suite):
    """A suite of made-up records; `figure_of` stands in for an official aggregate."""

    name = "made"
    title = "Made questions"
    metric = "correct"
    source = "made up"
    is_restricted = False

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        return ()

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        return Score(values={self.metric: 0.0})


class AxisSuite(MadeSuite):
    """Its official figure is the unweighted mean over axes, in per cent."""

    def figure(self, records: Sequence[Record]) -> Result:
        by_axis: dict[str, list[float]] = {}
        for record in records:
            by_axis.setdefault(record.groups["axis"], []).append(self.value(record))
        parts = {axis: 100 * sum(values) / len(values) for axis, values in by_axis.items()}
        return Result(sum(parts.values()) / len(parts), parts)


def answered(
    sample: str,
    cell: str,
    value: float,
    *,
    answer: str | None = None,
    groups: Mapping[str, str] | None = None,
    views: tuple[dict[str, Any], ...] = (),
    **call: Any,
) -> Record:
    """A scored record of one call."""
    text = answer if answer is not None else f"answer {value:g}"
    call.setdefault("text", text)
    return Record(
        suite="made",
        sample=sample,
        cell=cell,
        groups=dict(groups or {}),
        output=Output(answer=text, calls=(Call(**call),), elapsed_s=call.get("elapsed_s", 1.0), views=views),
        score=Score(values={"correct": value}),
    )


def failed(sample: str, cell: str, stage: str = "answer") -> Record:
    """A record of a failure."""
    return Record(
        suite="made",
        sample=sample,
        cell=cell,
        failure=Failure(stage=stage, error_type="Oops", message="it broke"),
    )


def write_run(folder: Path, records: Sequence[Record], **plan: Any) -> Path:
    """A run folder with these records; everything they name is in the plan, unless given."""
    names = dict.fromkeys(record.suite for record in records)
    suites = {
        name: SuitePlan(
            fingerprint="ab" * 32,
            gold_fingerprint="cd" * 32,
            num_samples=1_000,
            samples=tuple(dict.fromkeys(r.sample for r in records if r.suite == name)),
            cells=tuple(dict.fromkeys(r.cell for r in records if r.suite == name)),
        )
        for name in names
    }
    given: dict[str, Any] = {
        "system": {
            "verifier": "big",
            "drafter": "small",
            "verifier_params": 1_500_000_000,
            "drafter_params": 500_000_000,
        },
        "options": {"seed": 0},
        "suites": suites,
        "provenance": (
            {
                "date": "2026-11-30T12:00:00+00:00",
                "cpu": "made CPU",
                "asymspec_agents": "0.1",
                "torch": "2.13",
            },
        ),
        **plan,
    }
    with RunFolder(folder) as run:
        run.write_plan(Plan(**given))
        for record in records:
            run.append(record)
    return folder


def make_run(
    folder: Path,
    *,
    num: int = 60,
    rates: Mapping[str, float] | None = None,
    seed: int = 1,
    change: Callable[[Record], Record] | None = None,
    groups: Callable[[int], Mapping[str, str]] = lambda i: {"level": str(1 + i % 3)},
) -> Path:
    """A run of independent right and wrong answers with these chances."""
    chances = dict(rates or dict(zip(CELLS, (0.35, 0.5, 0.7, 0.85, 0.85), strict=True)))
    draw = random.Random(seed)
    records = []
    for i in range(num):
        luck = draw.random()
        for cell, chance in chances.items():
            value = float(luck * 0.6 + draw.random() * 0.4 < chance)
            record = answered(f"q{i}", cell, value, groups=groups(i), **_call(cell, draw))
            records.append(change(record) if change is not None else record)
    return write_run(folder, records)


def sweep_records(gains: Mapping[int, float], num: int = 80) -> list[Record]:
    """Floor is always 0 and Ceiling 1; AsymSpec is right on the first share of the samples, by size."""
    records = []
    for i in range(num):
        records.append(answered(f"q{i}", "ceiling", 1.0))
        for size, gain in gains.items():
            records.append(
                answered(f"q{i}", f"floor on truncate@{size}", 0.0, compressed_tokens=size, full_tokens=9_000)
            )
            right = float(i < gain * num)
            records.append(
                answered(
                    f"q{i}", f"asymspec on truncate@{size}", right, compressed_tokens=size, full_tokens=9_000
                )
            )
    return records


def _call(cell: str, draw: random.Random) -> dict[str, Any]:
    """Counts that look like those of a real call."""
    view = cell.partition("@")[2]
    size = int(float(view)) if view else 4_000
    base: dict[str, Any] = {
        "full_tokens": 4_000,
        "compressed_tokens": size,
        "completion_tokens": 24,
        "elapsed_s": size / 1_000 + draw.random(),
        "time_to_first_token_s": size / 2_000,
    }
    if cell.startswith(("asymspec", "identical", "fused")):
        prompt = RoleTokens(verifier=size, base=size, drafter=4_000)
        return {
            **base,
            "prompt_tokens": prompt,
            "computed_tokens": RoleTokens(verifier=size + 36, base=size + 36, drafter=4_036),
            "num_blocks": 12,
            "num_drafted": 36,
            "num_accepted": 20,
            "num_fused": 4,
            "drafted_per_position": (12, 12, 12),
            "accepted_per_position": (11, 9, draw.randrange(2, 9)),
            "num_judged": 24,
            "divergence_sum": 2.0 + draw.random(),
            "segments": (
                ("The answer ", "accepted"),
                ("is", "fused"),
                (" seven", "accepted"),
                (".", "bonus"),
            ),
            "mode": "asymspec",
        }
    if cell == "drafter":
        tokens = RoleTokens(drafter=4_000)
        return {**base, "prompt_tokens": tokens, "computed_tokens": RoleTokens(drafter=4_024)}
    tokens = RoleTokens(verifier=size)
    return {**base, "prompt_tokens": tokens, "computed_tokens": RoleTokens(verifier=size + 24)}
