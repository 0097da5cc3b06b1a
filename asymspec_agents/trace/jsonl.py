"""JSONLRecorder: one line of JSON per event in a file, within limits, redacted where that is asked for."""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from collections.abc import Callable
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from ..errors import ConfigurationError
from ..recording import Detail
from .limits import RecordLimits, bounded_line
from .plain import plain_json
from .recorder import Level, Once, detail_at, stamped
from .redaction import NOTHING, Redaction

__all__ = ["JSONLRecorder"]

logger = logging.getLogger(__name__)


class JSONLRecorder:
    """Appends one line of JSON per event to a file, flushed at once; usable as a context manager.

    `level` "detail" records every position's probabilities and `num_alternatives` of each model's likeliest
    tokens; "summary" costs decoding nothing. Texts and token ids are recorded with `captures_content` only;
    each text of a view once a file. `limits` bound texts, events, and files, which rotate: the newest is
    `path`, older ones `path.1`, `path.2`, …; rotation is for one recorder a path. `redaction` changes what
    is written of contents.

    Invariants: a line is written whole or, where the disk fails, ended before the next one; lines of several
    threads never mix. `record` never raises: events that could not be written (or redacted) are counted in
    `num_dropped`, and the first is logged as a warning. With contents captured, the file is readable by its
    owner only, one that was there before too. Raises ConfigurationError at construction where the file cannot
    be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        captures_content: bool = False,
        level: Level = "summary",
        num_alternatives: int = 5,
        limits: RecordLimits | None = None,
        redaction: Redaction = NOTHING,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self.captures_content = captures_content
        self.detail: Detail | None = detail_at(level, num_alternatives)
        self.limits = limits or RecordLimits()
        self.num_dropped = 0
        self._redaction = redaction
        self._clock = clock
        self._lock = threading.Lock()
        self._once = Once()
        self._is_closed = False
        try:
            self._file = self._opened()
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"path={str(path)!r}: the trace cannot be written: {error}") from error
        self._is_mid_line = _ends_mid_line(self._file)

    def record(self, event: str, /, **fields: Any) -> None:
        """Writes one event; stamped with the time unless `timestamp_s` is given."""
        try:
            if self._once.has(event, fields):
                return
            data = self._redaction.redacted(plain_json(stamped(event, fields, self._clock())))
            line = bounded_line(data, self.limits)
            with self._lock:
                self._make_room(len(line))
                self._write(line)
                self._once.add(event, fields)
        except Exception as error:
            with self._lock:
                self.num_dropped += 1
                is_first = self.num_dropped == 1
            if is_first:
                logger.warning("trace %s: events are being lost: %s", self.path, error)

    def _opened(self) -> FileIO:
        def opener(name: str, flags: int) -> int:
            file = os.open(name, flags, 0o600 if self.captures_content else 0o666)  # less the umask
            found = os.fstat(file).st_mode
            if self.captures_content and stat.S_ISREG(found) and found & 0o077:
                os.chmod(name, 0o600)  # it was there before, without contents
            return file

        return open(self.path, "ab+", buffering=0, opener=opener)

    def _make_room(self, num_bytes: int) -> None:
        """Begins a new file where the line would make this one too long."""
        longest = self.limits.max_file_bytes
        if longest is None or self._is_closed:
            return
        size = self._file.seek(0, os.SEEK_END)
        if size == 0 or size + num_bytes <= longest:
            return
        self._file.close()
        try:
            for number in range(self.limits.num_files - 1, 0, -1):
                older = self.path.with_name(f"{self.path.name}.{number}")
                newer = self.path if number == 1 else self.path.with_name(f"{self.path.name}.{number - 1}")
                if newer.exists():
                    newer.replace(older)
            if self.limits.num_files == 1:
                self.path.unlink()
        finally:
            self._file = self._opened()
        self._is_mid_line = _ends_mid_line(self._file)
        self._once.clear()

    def _write(self, line: bytes) -> None:
        if self._is_mid_line:
            line = b"\n" + line
        num_written = self._file.write(line)
        if num_written:
            self._is_mid_line = num_written < len(line)
        if num_written != len(line):
            raise OSError(f"only {num_written or 0} of {len(line)} bytes were written")

    def close(self) -> None:
        """Closes the file; later events are counted as dropped."""
        with self._lock:
            self._is_closed = True
            self._file.close()

    def __enter__(self) -> JSONLRecorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _ends_mid_line(file: FileIO) -> bool:
    """Whether a writer before us died within a line (pipes and devices have no past to look at)."""
    try:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
    except OSError:
        return False
