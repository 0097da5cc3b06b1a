"""Recorders: where events go (memory, a JSON-lines file, several places at once), and the file read back."""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from pydantic import ValidationError

from ..errors import ConfigurationError
from ..recording import Recorder
from .events import KINDS, Event, OtherEvent, parse_event
from .plain import plain_json

__all__ = ["JSONLRecorder", "MemoryRecorder", "TeeRecorder", "Trace", "read_trace"]

logger = logging.getLogger(__name__)


def _stamped(event: str, fields: dict[str, Any], now_s: float) -> dict[str, Any]:
    """The event's data, kind and time first; a given time stays, a field called event does not."""
    return {"event": event, "timestamp_s": now_s} | fields | {"event": event}


class MemoryRecorder:
    """Keeps events in a list; `num_dropped` counts those that were not even an event."""

    def __init__(self, *, captures_content: bool = False, clock: Callable[[], float] = time.time) -> None:
        self.captures_content = captures_content
        self.num_dropped = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._events: list[Event] = []

    @property
    def events(self) -> tuple[Event, ...]:
        """What was recorded until now, in order."""
        with self._lock:
            return tuple(self._events)

    def clear(self) -> None:
        """Forgets every event."""
        with self._lock:
            self._events.clear()

    def record(self, event: str, /, **fields: Any) -> None:
        """Keeps one event; stamped with the time unless `timestamp_s` is given."""
        try:
            parsed = parse_event(_stamped(event, fields, self._clock()))
        except Exception:  # a recorder never raises into its caller
            with self._lock:
                self.num_dropped += 1
            return
        with self._lock:
            self._events.append(parsed)


class JSONLRecorder:
    """Appends one line of JSON per event to a file, flushed at once; usable as a context manager.

    Invariants: a line is written whole or, where the disk fails, ended before the next one; lines of several
    threads never mix. `record` never raises: events that could not be written are counted in `num_dropped`,
    and the first is logged as a warning. With contents captured, a new file is readable by its owner only.
    Raises ConfigurationError at construction where the file cannot be opened.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        captures_content: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = Path(path)
        self.captures_content = captures_content
        self.num_dropped = 0
        self._clock = clock
        self._lock = threading.Lock()
        mode = 0o600 if captures_content else 0o666  # less the umask
        try:
            self._file = open(  # noqa: SIM115  (closed by close())
                path, "ab+", buffering=0, opener=lambda name, flags: os.open(name, flags, mode)
            )
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"path={str(path)!r}: the trace cannot be written: {error}") from error
        self._is_mid_line = _ends_mid_line(self._file)

    def record(self, event: str, /, **fields: Any) -> None:
        """Writes one event; stamped with the time unless `timestamp_s` is given."""
        try:
            data = plain_json(_stamped(event, fields, self._clock()))
            line = json.dumps(data, allow_nan=False, separators=(",", ":")).encode() + b"\n"
            with self._lock:
                self._write(line)
        except Exception as error:
            with self._lock:
                self.num_dropped += 1
                is_first = self.num_dropped == 1
            if is_first:
                logger.warning("trace %s: events are being lost: %s", self.path, error)

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


class TeeRecorder:
    """Passes each event on to several recorders, with one timestamp.

    Contents are captured only if all of them capture contents: none may get what it did not ask for.
    """

    def __init__(self, *recorders: Recorder, clock: Callable[[], float] = time.time) -> None:
        self._recorders = recorders
        self._clock = clock

    @property
    def captures_content(self) -> bool:
        return bool(self._recorders) and all(recorder.captures_content for recorder in self._recorders)

    def record(self, event: str, /, **fields: Any) -> None:
        """Passes one event on."""
        fields.setdefault("timestamp_s", self._clock())
        for recorder in self._recorders:
            recorder.record(event, **fields)


@dataclass(frozen=True, slots=True)
class Trace:
    """The events of a file, and a note for every line that is not, or not wholly, what it should be."""

    events: tuple[Event, ...]
    notes: tuple[str, ...] = ()


def read_trace(path: str | os.PathLike[str]) -> Trace:
    """The events of a JSON-lines trace, in file order.

    Lines that are no event are left out and noted, such as a last line cut short when its writer died. Raises
    OSError where the file cannot be read.
    """
    events: list[Event] = []
    notes: list[str] = []
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                event = parse_event(_json_object(line))
            except (ValueError, RecursionError) as error:  # pydantic's and json's errors are ValueErrors
                if line.endswith(b"\n"):
                    notes.append(f"line {number} is left out: {_reason(error)}")
                else:
                    notes.append(f"line {number}, the last, was cut short and is left out")
                continue
            if isinstance(event, OtherEvent) and event.event in KINDS:
                notes.append(f"line {number}: a malformed {event.event} event, not counted")
            events.append(event)
    return Trace(tuple(events), tuple(notes))


def _json_object(line: bytes) -> dict[str, Any]:
    data = json.loads(line.decode("utf-8"))
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    return data


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
    return (
        "not JSON"
        if isinstance(error, json.JSONDecodeError | UnicodeDecodeError | RecursionError)
        else str(error)
    )
