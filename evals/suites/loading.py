"""What loaders share: ids that stand once."""

from __future__ import annotations

from collections.abc import Sequence

from asymspec_agents.errors import ConfigurationError

from ..sample import Sample

__all__ = ["with_own_ids"]


def with_own_ids(samples: Sequence[Sample]) -> tuple[Sample, ...]:
    """The samples; raises ConfigurationError naming an id that stands twice, as answers are kept by it."""
    seen: set[str] = set()
    for sample in samples:
        if sample.id in seen:
            raise ConfigurationError(f"{sample.suite}: the id {sample.id!r} stands twice in the data")
        seen.add(sample.id)
    return tuple(samples)
