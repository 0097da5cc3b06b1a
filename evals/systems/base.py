"""What a system is: the models under test, and every arm that they can answer."""

from __future__ import annotations

import hashlib
import json
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from asymspec_agents.backends import Backend
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message, ToolSpec

from ..answering import Answering
from ..asking import ArmAsker, Means
from ..cells import ArmSpec, Cell, Reader, ViewSpec
from ..sample import Sample
from ..suite import Asker, Suite
from ..views import RouterLimits, TextTokens, ViewMaker, ViewMeans

__all__ = ["System", "refused", "versions"]

MAX_COUNTS = 4_096


class System(ABC):
    """Models, and the arms they answer.

    `identity` says what answered: names, numbers of parameters (None where unknown), dtype, device, versions,
    and what else decides on answers or views. Runs of equal identities may be continued. `arms` are the names
    it supports; `gate+delta` where it supports any. `seeing` are the models that see images; the others are
    given text. `max_parallel` is how many askers may be at work at once,
    None for any number.
    """

    identity: dict[str, Any]
    arms: frozenset[str]
    seeing: frozenset[Reader] = frozenset()
    max_parallel: int | None = None

    def __init__(self, *, llmlingua: str | None, device: str | None) -> None:
        self._llmlingua, self._device = llmlingua, device
        self._makers: dict[str, ViewMaker] = {}
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    @abstractmethod
    def refusal(self, arm: ArmSpec) -> str | None:
        """Why the arm cannot be answered; None where it can."""

    @abstractmethod
    def answering(self, arm: ArmSpec) -> Answering:
        """Who answers the arm. Raises ConfigurationError where it is not supported."""

    @abstractmethod
    def plain(self, reader: Reader) -> Backend:
        """One of the models by itself, for plain requests: summaries, or a judge.

        Raises ConfigurationError where there is no such model.
        """

    @property
    @abstractmethod
    def tokens(self) -> TextTokens:
        """The verifier's tokens of plain texts."""

    @abstractmethod
    def _count(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> int | None: ...

    def supports(self, arm: ArmSpec) -> bool:
        """Whether the arm can be answered."""
        return self.refusal(arm) is None

    def check(self, cell: Cell) -> None:
        """Raises ConfigurationError, saying why, where a cell's arm or view cannot be had here."""
        reason = self.refusal(cell.arm)
        if reason is not None:
            raise ConfigurationError(f"arm={str(cell.arm)!r} is not available here: {reason}")
        if cell.view is not None:
            self._maker(cell.view)

    def asker(self, suite: Suite, sample: Sample, cell: Cell) -> Asker:
        """The arm on its view, for one sample; what it computes is never reused by another asker.

        Raises ConfigurationError as `check` does.
        """
        self.check(cell)
        arm = cell.arm
        means = Means(
            answering=self.answering(arm),
            maker=None if cell.view is None else self._maker(cell.view),
            prompt_length=self.count_tokens,
            limits=self._limits(),
            counter=self.tokens.counter,
            # A full view that nobody reads is what the compressed one is made of, for those who read that.
            sees_images=(arm.full_readers or arm.compressed_readers) <= self.seeing,
            compressed_sees_images=arm.compressed_readers <= self.seeing,
            peak_memory=self._peak_memory(),
        )
        return ArmAsker(cell, means)

    def count_tokens(self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()) -> int | None:
        """A prompt's tokens for the verifier, chat template included; None where nobody can tell."""
        wire = [[item.wire() for item in items] for items in (messages, tools)]
        text = json.dumps(wire, default=str)  # escapes what UTF-8 cannot encode
        key = hashlib.sha256(text.encode()).hexdigest()
        with self._lock:
            if key in self._counts:
                return self._counts[key]
        counted = self._count(messages, tools)
        if counted is None:
            return None
        with self._lock:
            self._counts[key] = counted
            if len(self._counts) > MAX_COUNTS:
                self._counts.popitem(last=False)
        return counted

    def params(self, reader: Reader) -> int | None:
        """How many parameters a model has; None where unknown."""
        value: int | None = self.identity[f"{reader}_params"]
        return value

    def close(self) -> None:
        """Releases what the system holds."""
        return

    def _peak_memory(self) -> Any:
        return lambda: None

    def _limits(self) -> RouterLimits:
        backend = self.plain("verifier")
        can = backend.capabilities
        return RouterLimits(can.max_verifier_tokens, can.max_drafter_tokens, backend.prompt_counter)

    def _maker(self, view: ViewSpec) -> ViewMaker:
        with self._lock:
            if str(view) not in self._makers:
                means = ViewMeans(
                    tokens=self.tokens,
                    plain=self.plain,
                    params=self.params,
                    llmlingua=self._llmlingua,
                    device=self._device,
                )
                self._makers[str(view)] = ViewMaker(view, means)
            return self._makers[str(view)]


def refused(arm: ArmSpec, reason: str | None) -> ConfigurationError:
    """The error of an arm that cannot be answered."""
    return ConfigurationError(f"arm={str(arm)!r} is not available here: {reason}")


def versions(*packages: str) -> Mapping[str, str | None]:
    """The installed versions; None for a package that is not there."""
    import importlib.metadata

    found: dict[str, str | None] = {}
    for package in packages:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found
