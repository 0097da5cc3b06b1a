"""What a suite is: it loads samples, has each answered through an asker, and scores the answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from asymspec_agents.backends import Backend, ChatResponse
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.router import ContextRouter
from asymspec_agents.views import ViewPolicy

from .cells import Cell
from .records import Output, Record, Score
from .sample import LongPart, Sample

__all__ = ["Asker", "Judge", "Result", "Suite"]


class Judge(Protocol):
    """A grading model: one prompt in, one reply out. Equal prompts may be answered from a cache."""

    @property
    def name(self) -> str:
        """Which model grades; part of a run's provenance."""

    def ask(self, prompt: str, *, system: str | None = None, max_tokens: int = 512) -> str:
        """The judge's reply; raises what the backend raises."""


class Asker(Protocol):
    """The arm under test as a suite sees it. Every call through it is counted in the sample's output."""

    @property
    def cell(self) -> Cell:
        """Which arm, on which view."""

    @property
    def sees_images(self) -> bool:
        """Whether all models that read the full view in this arm see images; else they are given text.

        Where nobody reads it (Floor), those count that read the compressed view, which is made of it.
        """

    def ask(
        self,
        messages: Sequence[Message | Mapping[str, Any]],
        tools: Sequence[ToolSpec | Mapping[str, Any]] = (),
        *,
        query: str = "",
        long_parts: Sequence[LongPart] = (),
        max_tokens: int,
        stop: Sequence[str] = (),
    ) -> ChatResponse:
        """One call, greedily; the compressed view is made from `long_parts` (or from the whole conversation,
        where the view's method is a router's)."""

    def backend(self) -> Backend:
        """The arm as a backend for an agent framework: requests come with both views."""

    def router(self, policy: ViewPolicy | None = None) -> ContextRouter:
        """The router that makes the cell's compressed views in an agent's run.

        `policy`, where it is given, stands in place of the policy that the view's size would give.
        """

    def output(self, answer: str, **fields: Any) -> Output:
        """An output with this answer and all calls until now."""


@dataclass(frozen=True, slots=True)
class Result:
    """A suite's figure over some records, in the suite's unit; `parts` are official subtotals."""

    value: float
    parts: Mapping[str, float]


class Suite(ABC):
    """A benchmark. A subclass sets the names, and writes `load` and `score`."""

    name: str
    title: str
    metric: str
    """The value of a score that the suite's figure is the mean of, in [0, 1]."""
    is_binary: bool = True
    needs_judge: bool = False
    may_use_judge: bool = False
    """Whether a judge that is named grades here too, though none is needed."""
    option_names: tuple[str, ...] = ()
    """The options that `with_options` knows."""
    has_tools: bool = False
    """Whether calls come with tools, without which a view of their signatures changes nothing."""
    is_restricted: bool = False
    """Whether its terms forbid resharing: then runs keep `Record.restricted`, unless told otherwise."""
    default_views: tuple[str, ...] = ("extract@0.3",)
    source: str
    """Where the official release is, and its terms, in one line."""

    @property
    def uses_judge(self) -> bool:
        """Whether a judge has anything to do here."""
        return self.needs_judge or self.may_use_judge

    def with_options(self, options: Mapping[str, str]) -> Suite:
        """This suite with options of its own, given as texts; the default has none.

        It is given those in `option_names`. Raises ConfigurationError naming an option that is unknown, or a
        value that is out of range.
        """
        if options:
            raise ConfigurationError(f"option {next(iter(options))!r} is unknown: suite {self.name} has none")
        return self

    def prepare(self) -> None:
        """Checks, before a run begins, that what answering needs is there; the default needs nothing.

        Raises ConfigurationError that says what is missing.
        """
        return

    @abstractmethod
    def load(self, path: Path | None = None) -> Sequence[Sample]:
        """All samples, in the official order: of a local copy, or else of the official release.

        Raises ConfigurationError that says what is missing and how to get it.
        """

    def answer(self, sample: Sample, asker: Asker) -> Output:
        """The arm's answer; by default one call."""
        response = asker.ask(
            sample.messages,
            sample.tools,
            query=sample.query,
            long_parts=sample.long_parts,
            max_tokens=sample.max_tokens,
            stop=sample.stop,
        )
        calls = tuple(call.wire() for call in response.tool_calls)
        return asker.output(response.content, tool_calls=calls)

    @abstractmethod
    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        """The score of an answer; pure, but for what the judge says. An empty answer scores 0."""

    def figure(self, records: Sequence[Record]) -> Result:
        """The official aggregate of one cell's records: the mean of the metric, failures counted as 0."""
        values = [self.value(record) for record in records]
        return Result(sum(values) / len(values) if values else 0.0, {})

    def value(self, record: Record) -> float:
        """A record's metric; 0 where it failed."""
        return 0.0 if record.score is None else record.score.values[self.metric]
