"""Asks every sample of every cell, scores the answers, and records both; what is recorded stays.

Samples come first and cells within them, so a run that stops has asked all arms the same samples.
"""

from __future__ import annotations

import datetime
import json
import math
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from asymspec_agents.errors import ConfigurationError, MissingDependencyError
from asymspec_agents.tokens import clean_text

from .cells import Cell
from .outages import Outages, is_outage
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
) -> None:
    """Answers and scores what the folder has no record of, and with `retry_failed` what failed there.

    An exception of an arm is recorded as its failure, one of a scorer or judge beside the output; a retry
    asks the arm again in the first case, and only scores again in the second. Raises OutageError as Outages
    does, MissingDependencyError where a package lacks, and KeyboardInterrupt on SIGINT and SIGTERM, with
    every record until then whole.
    """
    outages = Outages(stop_after_outages)
    with StopSignals() as signals:
        maker = _Maker(folder, watcher, signals, outages)
        for job, sample, cell in _units(jobs):
            entry = folder.entries.get((job.suite.name, sample.id, str(cell)))
            if entry is None or (retry_failed and entry.failed_at and not entry.has_output):
                maker.answer(job, sample, cell, arms, version=entry.version + 1 if entry else 1)
            elif retry_failed and entry.failed_at:
                maker.score(job, sample, folder.read(entry))
        for record in outages.rest():
            maker.record(record)


def rescore(folder: RunFolder, jobs: Sequence[Job], watcher: Watcher, *, stop_after_outages: int = 3) -> None:
    """Scores every recorded output anew, asking no arm; only what comes out otherwise is recorded."""
    with StopSignals() as signals:
        maker = _Maker(folder, watcher, signals, Outages(stop_after_outages))
        for job, sample, cell in _units(jobs):
            entry = folder.entries.get((job.suite.name, sample.id, str(cell)))
            if entry is not None and entry.has_output:
                maker.score(job, sample, folder.read(entry))


def _units(jobs: Sequence[Job]) -> Iterator[tuple[Job, Sample, Cell]]:
    return ((job, sample, cell) for job in jobs for sample in job.samples for cell in job.cells)


class _Maker:
    """Makes records, one at a time."""

    def __init__(self, folder: RunFolder, watcher: Watcher, signals: StopSignals, outages: Outages) -> None:
        self._folder = folder
        self._watcher = watcher
        self._signals = signals
        self._outages = outages

    def answer(self, job: Job, sample: Sample, cell: Cell, arms: Arms, *, version: int) -> None:
        """Has the cell answer the sample, scores that, and records it."""
        started = time.monotonic()
        record = Record(
            suite=job.suite.name,
            sample=sample.id,
            cell=str(cell),
            groups={str(name): str(value) for name, value in sample.groups.items()},
            version=version,
        )
        self._watcher.began(record.key)
        try:
            output = _storable(job.suite.answer(sample, arms.asker(job.suite, sample, cell)))
        except MissingDependencyError:
            raise  # of the installation, and the same for every sample
        except (Exception, SystemExit) as error:  # code that an agent writes may leave by exit()
            failed = _stamped(record, failure=_failure("answer", error))
            if is_outage(error):
                for held in self._outages.failed(failed):
                    self.record(held, job, started)
                return
            self._put(job, failed, started)
            return
        score, failure, outage = _scored(job, sample, output)
        self._put(job, _stamped(record, output=output, score=score, failure=failure), started)
        self._outages.judged(outage)

    def score(self, job: Job, sample: Sample, before: Record) -> None:
        """Scores a recorded output again, and records what has changed."""
        started = time.monotonic()
        self._watcher.began(before.key)
        if before.output is None:
            return
        score, failure, outage = _scored(job, sample, before.output)
        after = before.model_copy(update={"score": score, "failure": failure, "version": before.version + 1})
        if (before.score, before.failure) == (score, failure):
            self._watcher.ended(before, job.suite.value(before), time.monotonic() - started)
        else:
            self.record(_stamped(after), job, started)
        self._outages.judged(outage)

    def _put(self, job: Job, record: Record, started: float) -> None:
        for held in self._outages.answered(record.cell):
            self.record(held)
        self.record(record, job, started)

    def record(self, record: Record, job: Job | None = None, started: float | None = None) -> None:
        """Writes a record through to the disk."""
        with self._signals.whole():
            self._folder.append(record)
        value = 0.0 if job is None else job.suite.value(record)
        self._watcher.ended(record, value, 0.0 if started is None else time.monotonic() - started)


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
