"""A made-up suite, and a system that answers it from a table: all that the runner and the command need.

Sample i asks for i + i. How an arm answers is said by `MadeSystem.answers`; `ceiling` is right.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from asymspec_agents.backends import Backend, ChatResponse, ScriptedBackend, scripted_response
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message, ToolSpec
from asymspec_agents.router import ContextRouter
from evals.cells import Cell
from evals.records import Call, Output, Score
from evals.sample import LongPart, Sample
from evals.suite import Asker, Judge, Suite

__all__ = ["MadeAsker", "MadeSystem", "MadeUp", "MadeUpJudged", "made_samples"]

NUM_SAMPLES = 12

Answer = Callable[[Sample], str]


def made_samples(num_samples: int = NUM_SAMPLES, *, suite: str = "made_up") -> tuple[Sample, ...]:
    """Samples `q0`, `q1`, … in groups of parity."""
    return tuple(
        Sample(
            suite=suite,
            id=f"q{number}",
            messages=({"role": "user", "content": f"padding {'word ' * 20}"}, _question(number)),  # type: ignore[arg-type]
            long_parts=(LongPart(0),),
            gold=str(2 * number),
            groups={"parity": "odd" if number % 2 else "even"},
        )
        for number in range(num_samples)
    )


def _question(number: int) -> dict[str, Any]:
    return {"role": "user", "content": f"What is {number} + {number}?"}


class MadeUp(Suite):
    """Right or wrong; a file given as data holds the number of samples."""

    name = "made_up"
    title = "Sums"
    metric = "right"
    default_views = ("head@0.5",)
    source = "nowhere, free"

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        return made_samples(int(path.read_text()) if path else NUM_SAMPLES, suite=self.name)

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        return Score(values={"right": float(output.answer == sample.gold)}, details={"pair": (1, 2)})


class MadeUpJudged(MadeUp):
    """Graded by a judge that says YES."""

    name = "made_up_judged"
    needs_judge = True

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        assert judge is not None
        return Score(values={"right": float(judge.ask(f"{output.answer} or {sample.gold}?") == "YES")})


class MadeAsker:
    """Answers one sample from a function."""

    def __init__(self, cell: Cell, sample: Sample, answer: Answer) -> None:
        self.cell = cell
        self._sample = sample
        self._answer = answer

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
        return scripted_response(self._answer(self._sample))

    def backend(self) -> Backend:
        raise AssertionError("the made-up suite asks by ask()")

    def router(self) -> ContextRouter:
        raise AssertionError("the made-up suite asks by ask()")

    def output(self, answer: str, **fields: Any) -> Output:
        return Output(answer=answer, calls=(Call(text=answer),), **fields)


class MadeSystem:
    """Answers by arm: the gold by default. `asked` are the (sample, cell) of every asker, in order."""

    max_parallel: int | None = None

    def __init__(
        self,
        answers: Mapping[str, Answer] | None = None,
        *,
        identity: Mapping[str, Any] | None = None,
        arms: Iterable[str] | None = None,
    ) -> None:
        self.identity = dict(identity or {"verifier": "made", "sizes": (3, 1)})
        self.answers = dict(answers or {})
        self.arms = None if arms is None else frozenset(arms)
        self.asked: list[tuple[str, str]] = []
        self.num_closed = 0

    def check(self, cell: Cell) -> None:
        if self.arms is not None and cell.arm.name not in self.arms:
            raise ConfigurationError(f"arm={str(cell.arm)!r} is not available here")

    def asker(self, suite: Suite, sample: Sample, cell: Cell) -> Asker:
        self.asked.append((sample.id, str(cell)))
        return MadeAsker(cell, sample, self.answers.get(cell.arm.name, lambda sample: str(sample.gold)))

    def plain(self, reader: str) -> Backend:
        return ScriptedBackend(lambda request: "YES", model=f"made {reader}")

    def close(self) -> None:
        self.num_closed += 1
