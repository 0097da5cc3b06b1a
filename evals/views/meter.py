"""What making views cost: seconds, and FLOPs of models that took part."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from asymspec_agents.compress.base import Compressor, Rendition
from asymspec_agents.tokens import TokenCounter

__all__ = ["Effort", "Meter", "Metered", "SummaryMeter"]


@dataclass(frozen=True, slots=True)
class Effort:
    """Seconds, and FLOPs of models."""

    elapsed_s: float = 0.0
    flops: float = 0.0

    def __add__(self, other: Effort) -> Effort:
        return Effort(self.elapsed_s + other.elapsed_s, self.flops + other.flops)


class Meter:
    """A sum of efforts, taken off by whoever accounts for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._total = Effort()

    def add(self, effort: Effort) -> None:
        with self._lock:
            self._total += effort

    def take(self) -> Effort:
        """The sum since it was last taken."""
        with self._lock:
            total, self._total = self._total, Effort()
        return total


class Metered:
    """A model's compressor that adds the FLOPs of each rendition to a meter."""

    def __init__(self, inner: Compressor, flops_of: Callable[[str], float], meter: Meter) -> None:
        self._inner, self._flops_of, self._meter = inner, flops_of, meter

    @property
    def configuration(self) -> str:
        return self._inner.configuration

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        """The inner compressor's rendition."""
        made: Rendition = self._inner.compress(
            text, query=query, target_tokens=target_tokens, counter=counter
        )
        if made.text != text:
            self._meter.add(Effort(flops=self._flops_of(text)))
        return made


class SummaryMeter:
    """A recorder that turns `summary` events into FLOPs of the model that wrote them."""

    captures_content = False

    def __init__(self, params: int | None, meter: Meter) -> None:
        self._params, self._meter = params or 0, meter

    def record(self, event: str, /, **fields: Any) -> None:
        """Adds what a summary took; other events are nothing to it."""
        if event == "summary":
            tokens = fields["prompt_tokens"] + fields["completion_tokens"]
            self._meter.add(Effort(flops=2.0 * self._params * tokens))
