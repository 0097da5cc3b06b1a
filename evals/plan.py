"""What a run asks: suites, samples and cells, of which system. Kept as `run.json` beside the records."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from asymspec_agents.errors import ConfigurationError

from .sample import Sample

__all__ = ["Plan", "SuitePlan", "fingerprint", "gold_fingerprint", "merged"]


class _Plain(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SuitePlan(_Plain):
    """What is asked of one suite: every sample of `samples`, in this order, by every one of `cells`.

    The fingerprints are those of the whole release, of which `num_samples` tells the size. `judge` is who
    graded, None where nobody was needed.
    """

    fingerprint: str
    gold_fingerprint: str
    num_samples: int
    judge: str | None = None
    samples: tuple[str, ...]
    cells: tuple[str, ...]


class Plan(_Plain):
    """A run. `system` says what was measured, `options` how samples were chosen; neither may change.

    `provenance` has one entry for each time the run was started. `rescoring` names the suites whose new
    scoring has begun and not ended: old and new scores stand side by side there.
    """

    format: Literal[1] = 1
    system: dict[str, Any]
    options: dict[str, Any]
    suites: dict[str, SuitePlan]
    provenance: tuple[dict[str, Any], ...] = ()
    rescoring: tuple[str, ...] = ()

    @property
    def keys(self) -> frozenset[tuple[str, str, str]]:
        """Every (suite, sample, cell) that is asked."""
        return frozenset(
            (name, sample, cell)
            for name, suite in self.suites.items()
            for sample in suite.samples
            for cell in suite.cells
        )


def fingerprint(samples: Sequence[Sample]) -> str:
    """A sha256 of what samples ask: ids, messages, tools, what may be shortened, limits and files."""
    return _digest(
        [
            sample.id,
            [message.wire() for message in sample.messages],
            [tool.wire() for tool in sample.tools],
            sample.query,
            [[place.message, place.part] for place in sample.long_parts],
            sample.max_tokens,
            sample.stop,
            [[path.name, _file_digest(path)] for path in sample.files],
        ]
        for sample in samples
    )


def gold_fingerprint(samples: Sequence[Sample]) -> str:
    """A sha256 of what samples are scored by."""
    return _digest([sample.id, sample.gold, dict(sample.details)] for sample in samples)


def _digest(parts: Any) -> str:
    digest = hashlib.sha256()
    for part in parts:
        # A path counts by its name: the same data elsewhere is the same data.
        text = json.dumps(part, sort_keys=True, default=lambda v: v.name if isinstance(v, Path) else str(v))
        digest.update(text.encode() + b"\n")
    return digest.hexdigest()


def _file_digest(path: Path) -> str | None:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return None  # whoever needs the file says so


def merged(before: Plan, now: Plan, *, folder: Path, is_rescoring: bool = False) -> Plan:
    """The plan of a folder that goes on: samples and cells of both, each once, those of `before` first.

    Raises ConfigurationError that names what differs where it is another run: system, options, data or
    judge. A new scoring may come with other golds and another judge.
    """
    differences = [
        *_differences("system", before.system, now.system),
        *_differences("options", before.options, now.options),
    ]
    suites = dict(before.suites)
    for name, suite in now.suites.items():
        old = before.suites.get(name)
        if old is None:
            suites[name] = suite
            continue
        what_is_fixed = ["fingerprint", *([] if is_rescoring else ["gold_fingerprint", "judge"])]
        differences += _differences(
            name, old.model_dump(include={*what_is_fixed}), suite.model_dump(include={*what_is_fixed})
        )
        suites[name] = suite.model_copy(
            update={"samples": _union(old.samples, suite.samples), "cells": _union(old.cells, suite.cells)}
        )
    if differences:
        raise ConfigurationError(
            f"{folder} holds another run; {'; '.join(differences)}. Go on with what it was started with, or "
            "give another --out" + _advice(differences)
        )
    provenance = (*before.provenance, *now.provenance)
    return before.model_copy(update={"suites": suites, "provenance": provenance})


def _union(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


def _differences(place: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The values that differ, each as `place.name: X there, Y now`."""
    found: list[str] = []
    for name in dict.fromkeys((*before, *now)):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += _differences(f"{place}.{name}", old, new)
        elif _plain(old) != _plain(new):
            found.append(f"{place}.{name}: {_short(old)} there, {_short(new)} now")
    return found


def _plain(value: Any) -> Any:
    """The value as it comes back from JSON: tuples are lists there."""
    return json.loads(json.dumps(value, default=str))


def _short(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _advice(differences: Sequence[str]) -> str:
    scored = any(".gold_fingerprint:" in line or ".judge:" in line for line in differences)
    return "; --rescore scores it anew with other golds or another judge" if scored else ""
