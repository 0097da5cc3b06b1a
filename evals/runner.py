"""Asks every sample of every cell, scores the answers, and records both; what is recorded stays.

Samples come first and cells within them, so a run that stops has asked all arms the same samples.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from asymspec_agents.errors import ConfigurationError, MissingDependencyError
from asymspec_agents.tokens import clean_text

from .cells import Cell
from .outages import Outages, is_outage
from .pooling import results
from .records import Failure, Output, Record, Score
from .run_folder import RunFolder
from .sample import Sample
from .stopping import StopSignals
from .suite import Asker, Judge, Suite

__all__ = ["Arms", "Job", "Watcher", "rescore", "run"]

_MESSAGE_CHARS = 2_000


class Arms(Protocol):
    """Who answers: the part of a system that a run needs."""

    def asker(self, suite: Suite, sample: Sample, cell: Cell) -> Asker:
        """The cell's arm, for one sample."""


class Watcher(Protocol):
    """Who looks on."""

    def began(self, record_key: tuple[str, str, str]) -> None:
        """A sample is being asked, or scored."""

    def ended(self, record: Record, value: float, elapsed_s: float) -> None:
        """A record was made; `value` is the suite's metric, 0 where it failed."""


@dataclass(frozen=True, slots=True)
class Job:
    """A suite's part of a run: samples in order, the cells that answer each, and who grades."""

    suite: Suite
    samples: tuple[Sample, ...]
    cells: tuple[Cell, ...]
    judge: Judge | None = None

    def __post_init__(self) -> None:
        if self.suite.needs_judge and self.judge is None:
            raise ConfigurationError(
                f"suite={self.suite.name!r} is graded by a judge, and there is none; name one"
            )


def run(
    folder: RunFolder,
    jobs: Sequence[Job],
    arms: Arms,
    watcher: Watcher,
    *,
    retry_failed: bool = False,
    stop_after_outages: int = 3,
    num_parallel: int = 1,
    keeps_restricted: bool = False,
) -> None:
    """Answers and scores what the folder has no record of, and with `retry_failed` what failed there.

    An exception of an arm is recorded as its failure, one of a scorer or judge beside the output; a retry
    asks the arm again in the first case, and only scores again in the second. Of a suite whose terms forbid
    resharing records keep ids, answers and scores only, unless `keeps_restricted`. `num_parallel` askers are
    at work at once. Raises OutageError as Outages does, MissingDependencyError where a package lacks, and
    KeyboardInterrupt on SIGINT and SIGTERM, with every record until then whole.
    """

    def tasks() -> Iterator[Callable[[], _Made]]:
        for job, sample, cell in _units(jobs):
            entry = folder.entries.get((job.suite.name, sample.id, str(cell)))
            if entry is None or (retry_failed and entry.failed_at and not entry.has_output):
                version = entry.version + 1 if entry else 1
                watcher.began((job.suite.name, sample.id, str(cell)))
                yield partial(_answered, job, sample, cell, arms, version, keeps_restricted)
            elif retry_failed and entry.failed_at:
                watcher.began((job.suite.name, sample.id, str(cell)))
                yield partial(_graded, job, sample, folder.read(entry))

    outages = Outages(stop_after_outages)
    with StopSignals() as signals:
        taker = _Taker(folder, watcher, signals, outages)
        with contextlib.closing(results(tasks(), num_parallel)) as made:
            for one in made:
                taker.take(one)
        outages.end()


def rescore(folder: RunFolder, jobs: Sequence[Job], watcher: Watcher, *, stop_after_outages: int = 3) -> None:
    """Scores every recorded output anew, asking no arm; only what comes out otherwise is recorded."""
    with StopSignals() as signals:
        taker = _Taker(folder, watcher, signals, Outages(stop_after_outages))
        for job, sample, cell in _units(jobs):
            entry = folder.entries.get((job.suite.name, sample.id, str(cell)))
            if entry is not None and entry.has_output:
                watcher.began((job.suite.name, sample.id, str(cell)))
                taker.take(_graded(job, sample, folder.read(entry)))


def _units(jobs: Sequence[Job]) -> Iterator[tuple[Job, Sample, Cell]]:
    return ((job, sample, cell) for job in jobs for sample in job.samples for cell in job.cells)


@dataclass(frozen=True, slots=True)
class _Made:
    """A record, and what is to be known of how it came about.

    `is_new`: it says something else than what stands in the folder. `has_asked`: an arm was asked;
    `is_outage`: it failed as a server does that is gone. `has_judged`: a score was sought; `judge_outage` is
    why the judge was out of reach, if it was.
    """

    job: Job
    record: Record
    elapsed_s: float
    is_new: bool = True
    has_asked: bool = False
    is_outage: bool = False
    has_judged: bool = False
    judge_outage: str | None = None


def _answered(
    job: Job, sample: Sample, cell: Cell, arms: Arms, version: int, keeps_restricted: bool
) -> _Made:
    """Has the cell answer the sample, and scores that."""
    started_s = time.monotonic()
    record = Record(
        suite=job.suite.name, sample=sample.id, cell=str(cell), groups=_groups(sample), version=version
    )
    try:
        output = _storable(job.suite.answer(sample, arms.asker(job.suite, sample, cell)))
    except MissingDependencyError:
        raise  # of the installation, and the same for every sample
    except (Exception, SystemExit) as error:  # code that an agent writes may leave by exit()
        failed = _stamped(record, failure=_failure("answer", error))
        elapsed_s = time.monotonic() - started_s
        return _Made(job, failed, elapsed_s, has_asked=True, is_outage=is_outage(error))
    score, failure, judge_outage = _scored(job, sample, output)
    record = _stamped(record, output=output, score=score, failure=failure)
    if job.suite.is_restricted and not keeps_restricted:
        record = record.restricted()
    elapsed_s = time.monotonic() - started_s
    return _Made(job, record, elapsed_s, has_asked=True, has_judged=True, judge_outage=judge_outage)


def _graded(job: Job, sample: Sample, before: Record) -> _Made:
    """Scores a recorded output again."""
    started_s = time.monotonic()
    if before.output is None:
        return _Made(job, before, 0.0, is_new=False)
    score, failure, judge_outage = _scored(job, sample, before.output)
    is_new = (before.score, before.failure) != (score, failure)
    record = before
    if is_new:
        update = {"score": score, "failure": failure, "version": before.version + 1}
        record = _stamped(before.model_copy(update=update))
    elapsed_s = time.monotonic() - started_s
    return _Made(job, record, elapsed_s, is_new=is_new, has_judged=True, judge_outage=judge_outage)


def _groups(sample: Sample) -> dict[str, str]:
    """The sample's groups, and the cluster of samples that it depends on, if it says one."""
    groups = {str(name): str(value) for name, value in sample.groups.items()}
    if "cluster" in sample.details:
        groups["cluster"] = str(sample.details["cluster"])
    return groups


class _Taker:
    """Takes what was made, one after another, and writes it."""

    def __init__(self, folder: RunFolder, watcher: Watcher, signals: StopSignals, outages: Outages) -> None:
        self._folder = folder
        self._watcher = watcher
        self._signals = signals
        self._outages = outages

    def take(self, made: _Made) -> None:
        """Records it, unless it is held as an outage or says nothing new."""
        if made.is_outage:
            for held in self._outages.failed(made.record):
                self.record(held, made)
            return
        if made.has_asked:
            for held in self._outages.answered(made.record.cell):
                self.record(held)
        if made.is_new:
            self.record(made.record, made)
        else:
            self._tell(made.record, made)
        if made.has_judged:
            self._outages.judged(made.judge_outage)

    def record(self, record: Record, made: _Made | None = None) -> None:
        """Writes a record through to the disk."""
        with self._signals.whole():
            self._folder.append(record)
        self._tell(record, made)

    def _tell(self, record: Record, made: _Made | None) -> None:
        value = 0.0 if made is None else made.job.suite.value(record)
        self._watcher.ended(record, value, 0.0 if made is None else made.elapsed_s)


def _scored(job: Job, sample: Sample, output: Output) -> tuple[Score | None, Failure | None, str | None]:
    """The score, or why there is none; and why the judge was out of reach, if it was."""
    try:
        return _checked(job.suite, job.suite.score(sample, output, job.judge)), None, None
    except MissingDependencyError:
        raise
    except Exception as error:
        failure = _failure("score", error)
        return None, failure, failure.message if is_outage(error) else None


def _storable(output: Output) -> Output:
    """The output; raises TypeError or ValueError where it can't be written as JSON."""
    json.dumps(output.model_dump(mode="python"))
    return output


def _checked(suite: Suite, score: Score) -> Score:
    """The score as it comes back from JSON, if it has the suite's metric in its range: a mean over anything
    else says nothing."""
    score = Score.model_validate(json.loads(json.dumps(score.model_dump(mode="python"))))
    value = score.values.get(suite.metric)
    if value is None or not (math.isfinite(value) and 0 <= value <= 1):
        raise ValueError(f"{suite.name} gave {suite.metric}={value!r}, which must be in [0, 1]")
    return score


def _stamped(
    record: Record,
    *,
    output: Output | None = None,
    score: Score | None = None,
    failure: Failure | None = None,
) -> Record:
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    given = {"output": output, "score": score, "failure": failure}
    return record.model_copy(
        update={"finished_at": now, **{name: value for name, value in given.items() if value is not None}}
    )


def _failure(stage: str, error: BaseException) -> Failure:
    """The error as it is told: its text, and in which line it arose (names of files, no folders)."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    text = clean_text(str(error))
    if len(text) > _MESSAGE_CHARS:
        text = f"{text[:_MESSAGE_CHARS]} …"
    return Failure(stage=stage, error_type=type(error).__name__, message=f"{text or 'no message'}{place}")
