"""Which samples of a suite are asked, and in which order: equal for every arm, and from start to start.

Samples are asked in the order of a hash of their ids. So the first 50 are among the first 100, and a run that
was stopped has asked what a smaller one would have.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from asymspec_agents.errors import ConfigurationError

from .sample import Sample

__all__ = ["checked_ids", "chosen", "missing_groups", "shuffled"]


def checked_ids(suite: str, samples: Sequence[Sample]) -> Sequence[Sample]:
    """The samples as they are; raises ConfigurationError where there is none, or an id stands twice."""
    if not samples:
        raise ConfigurationError(f"suite={suite!r}: the data holds no sample")
    twice = [name for name, count in Counter(sample.id for sample in samples).items() if count > 1]
    if twice:
        raise ConfigurationError(
            f"suite={suite!r}: {len(twice)} ids stand twice in the data: {twice[0]!r}, …"
        )
    return samples


def shuffled(suite: str, samples: Iterable[Sample], seed: int = 0) -> tuple[Sample, ...]:
    """The samples by the sha256 of seed, suite and id."""

    def place(sample: Sample) -> bytes:
        text = f"{seed}\n{suite}\n{sample.id}"
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()

    return tuple(sorted(samples, key=place))


def chosen(
    suite: str,
    samples: Iterable[Sample],
    *,
    num_samples: int | None = None,
    ids: frozenset[str] | None = None,
    only: Mapping[str, frozenset[str]] | None = None,
    seed: int = 0,
) -> tuple[Sample, ...]:
    """The first `num_samples` with one of the ids and, in each group of `only`, one of its values."""
    kept = (
        sample
        for sample in shuffled(suite, samples, seed)
        if (ids is None or sample.id in ids)
        and all(sample.groups.get(group) in values for group, values in (only or {}).items())
    )
    return tuple(kept)[:num_samples]


def missing_groups(samples: Iterable[Sample], only: Mapping[str, frozenset[str]]) -> str | None:
    """What of `only` no sample has, with what there is; None where all is there."""
    known: dict[str, set[str]] = {}
    for sample in samples:
        for group, value in sample.groups.items():
            known.setdefault(group, set()).add(value)
    for group, values in only.items():
        if group not in known:
            return f"group {group!r} is unknown; groups: {', '.join(sorted(known)) or 'none'}"
        for value in sorted(values - known[group]):
            return f"group {group!r} has no {value!r}; values: {', '.join(sorted(known[group]))}"
    return None
