"""What an engine is asked and what it answers: limits, a request in token ids, and how it ended."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ..errors import ConfigurationError
from ..protocol import AsymSpecOptions, AsymSpecReport
from .arms import ARMS, Arm, Reading
from .grammar import Grammar
from .sampling import Sampling
from .vision.options import VisionOptions
from .vision.sight import Sight

__all__ = ["DecodeRequest", "EngineOptions", "Outcome"]

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Limits of an engine: bytes of finished requests' caches to keep, and each view's longest prompt.

    `vision`: what a drafter that sees is shown.
    """

    prefix_cache_bytes: int = 4 * GIB
    max_verifier_tokens: int | None = None
    max_drafter_tokens: int | None = None
    vision: VisionOptions = field(default_factory=VisionOptions)

    def __post_init__(self) -> None:
        if self.prefix_cache_bytes < 0:
            raise ConfigurationError(f"prefix_cache_bytes={self.prefix_cache_bytes} must not be negative")
        for name in ("max_verifier_tokens", "max_drafter_tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigurationError(f"{name}={value} must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeRequest:
    """Token ids of both views, each ending with the same generation prompt, and how to decode from them.

    `drafter_full` and `drafter_compressed` are the views in the drafter's ids where those are not the
    verifier's: it has another vocabulary, or sees what the verifier does not. `sight` has the images of
    `drafter_full`.
    `max_tokens` None: until the context is full. `cache_salt` isolates prefix reuse between tenants.
    `fallback` names what the caller had to change about the request; trace and report repeat it. `sampling`
    None is greedy, and all that an arm with a drafter knows. `grammar` is what the answer must keep to.
    `visible_tokens` are the special tokens, by id, that stay in the answer's text. `asked_s` is when it was
    asked, by the monotonic clock: what goes by until the engine takes it up is waiting.
    """

    full: Sequence[int]
    compressed: Sequence[int]
    drafter_full: Sequence[int] | None = None
    drafter_compressed: Sequence[int] | None = None
    sight: Sight | None = None
    arm: Arm = ARMS["asymspec"]
    options: AsymSpecOptions = field(default_factory=AsymSpecOptions)
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    cache_salt: str | None = None
    request_id: str = ""
    fallback: str | None = None
    sampling: Sampling | None = None
    grammar: Grammar | None = None
    visible_tokens: Mapping[int, str] = field(default_factory=dict)
    asked_s: float = field(default_factory=time.monotonic, compare=False)

    def __post_init__(self) -> None:
        if self.sampling is not None and self.arm.drafting is not None:
            raise ConfigurationError(
                f"temperature={self.sampling.temperature}: arm {self.arm.name!r} is greedy; leave it out"
            )

    def prompt(self, reading: Reading) -> Sequence[int]:
        """The token ids that reading reads."""
        ids = self.full if reading.view == "full" else self.compressed
        own = self.drafter_full if reading.view == "full" else self.drafter_compressed
        return ids if own is None or reading.model == "verifier" else own

    @property
    def has_identical_views(self) -> bool:
        """Whether nobody reads more in one view than in the other."""
        own = [None if ids is None else list(ids) for ids in (self.drafter_full, self.drafter_compressed)]
        return list(self.full) == list(self.compressed) and own[0] == own[1]

    def shown(self, reading: Reading) -> Sight | None:
        """The images that reading sees."""
        return self.sight if (reading.model, reading.view) == ("drafter", "full") else None


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a request ended; `num_tokens` counts an EOS token too."""

    finish_reason: Literal["stop", "length"]
    num_tokens: int
    report: AsymSpecReport
