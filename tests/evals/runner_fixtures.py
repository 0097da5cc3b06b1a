"""A run folder, jobs and watchers for tests of the runner."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from evals.cells import Cell
from evals.plan import Plan, SuitePlan
from evals.records import Record
from evals.run_folder import RunFolder, read_run
from evals.runner import Job
from evals.sample import Sample
from evals.suite import Judge
from tests.evals.made_up import MadeUp, made_samples

__all__ = ["CELLS", "Judging", "Watch", "job_of", "made_folder", "raises", "records_of"]

CELLS = tuple(map(Cell.parse, ("floor on head@0.5", "ceiling", "drafter")))


class Watch:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.values: list[tuple[str, str, float]] = []

    def began(self, record_key: tuple[str, str, str]) -> None:
        pass

    def ended(self, record: Record, value: float, elapsed_s: float) -> None:
        assert elapsed_s >= 0
        self.values.append((record.sample, record.cell, value))


def job_of(num_samples: int = 3, suite: MadeUp | None = None, judge: Judge | None = None) -> Job:
    """So many samples of a suite on CELLS."""
    return Job(suite or MadeUp(), made_samples(num_samples), CELLS, judge)


@contextlib.contextmanager
def made_folder(path: Path) -> Iterator[RunFolder]:
    """A new run of nine samples of the made-up suites."""
    suites = {
        name: SuitePlan(
            fingerprint="f",
            gold_fingerprint="g",
            num_samples=9,
            samples=tuple(f"q{number}" for number in range(9)),
            cells=tuple(map(str, CELLS)),
        )
        for name in ("made_up", "made_up_judged")
    }
    with RunFolder(path) as folder:
        folder.write_plan(Plan(system={}, options={}, suites=suites))
        yield folder


def records_of(folder: RunFolder) -> dict[tuple[str, str], Record]:
    """What the folder holds, by sample and cell."""
    return {(record.sample, record.cell): record for record in read_run(folder.path).records()}


def raises(error: BaseException) -> Callable[[Sample], str]:
    """An arm that fails."""

    def answer(sample: Sample) -> str:
        raise error

    return answer


class Judging:
    """A judge that says what it is told to."""

    name = "judge"

    def __init__(self, *replies: str | Exception) -> None:
        self._replies = list(replies)
        self.num_asked = 0

    def ask(self, prompt: str, *, system: str | None = None, max_tokens: int = 512) -> str:
        self.num_asked += 1
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply
