"""The records of a run, one JSON line each, in a file that is only ever added to.

A process may be killed while it writes: the last line may be torn, and every line before it is whole. So a
torn last line is no record, and goes when the file is next written to.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from asymspec_agents.errors import ConfigurationError

from .records import Record

__all__ = ["Entry", "Log", "RecordWriter", "read_at", "scan"]

Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Entry:
    """Where the record that counts for a key stands, and what of it is needed at hand."""

    offset: int
    num_bytes: int
    version: int
    failed_at: str | None
    """The stage that failed."""
    has_output: bool
    values: Mapping[str, float] | None
    """The score's, None where there is none."""


@dataclass(frozen=True, slots=True)
class Log:
    """A file of records: the entry of each key, in the order of their first lines, and the whole lines'
    length. `is_torn` tells that something stands behind them."""

    entries: dict[Key, Entry]
    num_bytes: int
    is_torn: bool


def scan(path: Path) -> Log:
    """Reads a file of records, of which there may be none yet.

    Raises ConfigurationError naming the line where one before the last can't be read, where one is no
    record, or where a key stands twice (a later version of a record aside, which takes its place).
    """
    entries: dict[Key, Entry] = {}
    lines: dict[Key, int] = {}
    num_bytes = 0
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(path.open("rb"))
        except (FileNotFoundError, NotADirectoryError):
            return Log({}, 0, False)
        line = file.readline()
        for number in range(1, 2**63):
            if not line:
                break
            following = file.readline()
            place = f"{path}, line {number}"
            record = _parsed(line, place, is_last=not following)
            if record is None:
                return Log(entries, num_bytes, True)
            before = entries.get(record.key)
            if record.version != (before.version if before else 0) + 1:
                raise ConfigurationError(
                    f"{place}: {' · '.join(record.key)} as version {record.version}, "
                    + (f"already version {before.version} in line {lines[record.key]}" if before else "")
                    + ("" if before else "without the versions before it")
                    + "; a record may stand once: remove the line that is wrong"
                )
            entries[record.key] = _entry(record, num_bytes, len(line))
            lines[record.key] = number
            num_bytes += len(line)
            line = following
    return Log(entries, num_bytes, False)


def _parsed(line: bytes, place: str, *, is_last: bool) -> Record | None:
    """The line's record; None where it is the last one, and torn."""
    try:
        if not line.endswith(b"\n"):
            raise ValueError("the line has no end")
        content = json.loads(line)
    except (ValueError, RecursionError) as error:
        if is_last:
            return None
        raise ConfigurationError(
            f"{place} can't be read ({error}); remove the line, and its sample is asked again"
        ) from error
    try:
        return Record.model_validate(content)
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(map(str, problem["loc"])) or "it"
        raise ConfigurationError(f"{place} is no record: {where}: {problem['msg']}") from error


def _entry(record: Record, offset: int, num_bytes: int) -> Entry:
    return Entry(
        offset,
        num_bytes,
        record.version,
        record.failure.stage if record.failure else None,
        record.output is not None,
        record.score.values if record.score else None,
    )


def read_at(path: Path, entries: Iterator[Entry]) -> Iterator[Record]:
    """The records of the entries, one at a time: outputs are large."""
    with path.open("rb") as file:
        for entry in entries:
            file.seek(entry.offset)
            yield Record.model_validate(json.loads(file.read(entry.num_bytes)))


class RecordWriter:
    """Adds records, each written through to the disk before `append` returns.

    Opening drops a torn last line. Not safe without the folder's lock; a file that grew or shrank behind its
    back is an error, not a mixture.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        log = scan(path)
        self.entries = log.entries
        self._num_bytes = log.num_bytes
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        self._file = os.open(path, flags, 0o666)
        if log.is_torn:
            os.ftruncate(self._file, log.num_bytes)
            os.fsync(self._file)

    def append(self, record: Record) -> None:
        """Adds one record.

        Raises ConfigurationError where its version isn't the next of its key, or the file was changed by
        others; OSError where the disk is full, with every record before this one whole.
        """
        before = self.entries.get(record.key)
        if record.version != (before.version if before else 0) + 1:
            raise ConfigurationError(f"{' · '.join(record.key)} is already recorded in {self.path}")
        if os.fstat(self._file).st_size != self._num_bytes:
            raise ConfigurationError(f"{self.path} was changed while the run wrote it; start the run again")
        line = json.dumps(record.model_dump(mode="python")).encode() + b"\n"
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
            os.fsync(self._file)
        except OSError as error:
            with contextlib.suppress(OSError):  # what stays behind is a torn line, which the next start drops
                os.ftruncate(self._file, self._num_bytes)
            reason = f"{error.strerror}; the records before are whole, start the run again to go on"
            raise OSError(error.errno, reason, str(self.path)) from error
        self.entries[record.key] = _entry(record, self._num_bytes, len(line))
        self._num_bytes += len(line)

    def close(self) -> None:
        """Closes the file; what was appended is on disk already."""
        os.close(self._file)
