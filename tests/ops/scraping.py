"""Prometheus' text format read back, as a dictionary of samples."""

from __future__ import annotations

from typing import Any

__all__ = ["Samples", "samples"]

Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def samples(text: str) -> Any:
    """A function that sums the samples of a name and of given labels."""
    from prometheus_client.parser import text_string_to_metric_families

    found: Samples = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }

    def value(name: str, **labels: str) -> float:
        wanted = set(labels.items())
        return sum(number for (given, own), number in found.items() if given == name and wanted <= own)

    return value
