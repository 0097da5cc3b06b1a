"""A run's folder: `run.json` says what is asked, `records.jsonl` what came of it; one writer, any readers."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from asymspec_agents.errors import ConfigurationError, MissingDependencyError

from .plan import Plan
from .record_log import Entry, Log, RecordWriter, read_at, scan
from .records import Record

__all__ = ["Run", "RunFolder", "read_plan", "read_run"]

_PLAN, _RECORDS, _LOCK = "run.json", "records.jsonl", "run.lock"


@dataclass(frozen=True, slots=True)
class Run:
    """A run as it stands, for reading."""

    folder: Path
    plan: Plan
    log: Log

    def records(self) -> Iterator[Record]:
        """The record that counts for each key, one at a time, in the order in which they were first made."""
        return read_at(self.folder / _RECORDS, iter(self.log.entries.values()))


def read_run(folder: Path) -> Run:
    """Reads a run without locking it; another process may go on writing.

    Raises ConfigurationError where the folder is none of a run, or a file of it can't be read.
    """
    log = scan(folder / _RECORDS)  # before the plan, which only grows: no record is outside it then
    plan = read_plan(folder)
    if plan is None:
        raise ConfigurationError(f"{folder} is no run folder: there is no {_PLAN} in it")
    _check_keys(folder, plan, log.entries)
    return Run(folder, plan, log)


class RunFolder:
    """A run's folder, open for writing and locked; a context manager that lets go of it.

    `plan` is None in a new folder, until `write_plan`. Raises ConfigurationError where another process has
    the folder, or it holds something else.
    """

    plan: Plan | None

    def __init__(self, path: Path) -> None:
        self.path = path
        with contextlib.ExitStack() as stack:
            stack.enter_context(_locked(path))
            self.plan = read_plan(path)
            others = {entry.name for entry in path.iterdir()} - {_LOCK, f"{_PLAN}.new"}
            if self.plan is None and others:
                raise ConfigurationError(
                    f"{path} is no run folder: it has files, and no {_PLAN}; give a new or an empty folder"
                )
            self._records = RecordWriter(path / _RECORDS) if self.plan else None
            if self._records is not None:
                stack.callback(self._records.close)
                _check_keys(path, self.plan, self._records.entries)
            self._stack = stack.pop_all()

    @property
    def entries(self) -> Mapping[tuple[str, str, str], Entry]:
        """What is recorded, by key."""
        return self._records.entries if self._records is not None else {}

    def read(self, entry: Entry) -> Record:
        """The record of an entry."""
        return next(read_at(self.path / _RECORDS, iter((entry,))))

    def write_plan(self, plan: Plan) -> None:
        """Puts a plan in place of the one before, whole or not at all."""
        new = self.path / f"{_PLAN}.new"
        with new.open("w", encoding="utf-8") as file:
            json.dump(plan.model_dump(mode="python"), file, indent=1)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self.path / _PLAN)
        if self._records is None:
            self._records = RecordWriter(self.path / _RECORDS)
            self._stack.callback(self._records.close)
        _sync_folder(self.path)
        self.plan = plan

    def append(self, record: Record) -> None:
        """Records one sample of a cell, as RecordWriter does."""
        if self._records is None:
            raise ConfigurationError(f"{self.path} has no plan yet")
        self._records.append(record)

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._stack.close()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    try:
        from filelock import FileLock, Timeout
    except ImportError as error:
        raise MissingDependencyError("filelock", "engine") from error
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / _LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise ConfigurationError(
            f"{folder} is in use by another run; wait for that one to end, or give another --out"
        ) from None
    try:
        yield
    finally:
        lock.release()


def read_plan(folder: Path) -> Plan | None:
    """The plan of a folder, None where there is none; raises ConfigurationError where it can't be read."""
    path = folder / _PLAN
    try:
        content: Any = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{path} can't be read: {error}") from error
    try:
        return Plan.model_validate(content)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"])) or "it"
        raise ConfigurationError(f"{path} is no plan of a run: {where}: {problem['msg']}") from error


def _check_keys(folder: Path, plan: Plan | None, entries: Mapping[tuple[str, str, str], Entry]) -> None:
    known = plan.keys if plan is not None else frozenset()
    for key in entries:
        if key not in known:
            raise ConfigurationError(
                f"{folder / _RECORDS} has a record of {' · '.join(key)}, which {_PLAN} does not ask; "
                "the two files are of different runs"
            )


def _sync_folder(folder: Path) -> None:
    """Makes a new name durable, where folders can be synchronised at all."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
