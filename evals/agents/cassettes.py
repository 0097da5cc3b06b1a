"""Cassettes: what tools answered, recorded once and replayed, so that a run repeats without the internet.

A cassette is a file of JSON lines that only grows; of two lines with one key the later one counts. A key is a
tool's name and its arguments, normalised. Errors are answers too and are replayed like others. Nothing is
written but the tool's name, its arguments (without user names in URLs), its answer and the time.
"""

from __future__ import annotations

import json
import os
import re
import threading
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit, urlunsplit

from asymspec_agents.errors import ConfigurationError, MissingDependencyError

__all__ = [
    "Cassette",
    "CassetteMode",
    "Played",
    "Source",
    "ToolFailedError",
    "UnknownRequestError",
    "request_key",
]

CassetteMode = Literal["replay", "record-missing", "record"]
Source = Literal["replayed", "recorded"]

VERSION = 1
LOCK_TIMEOUT_S = 30.0
_SPACES = re.compile(r"\s+")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.I)
_USER = re.compile(r"//[^/]*@")
_PORTS = {"http": 80, "https": 443}


class ToolFailedError(Exception):
    """What a tool tells an agent when it has no answer; recorded like an answer."""


class UnknownRequestError(ToolFailedError):
    """A request that a replayed cassette does not hold."""


@dataclass(frozen=True, slots=True)
class Played:
    """A tool's answer, or why it failed, and where that came from."""

    text: str
    is_error: bool
    source: Source


def request_key(tool: str, arguments: Mapping[str, Any]) -> str:
    """The key of a request: the same for other spacing, Unicode forms and spellings of a URL."""
    return _key(tool, _normalised(arguments))


def _key(tool: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps([tool, arguments], ensure_ascii=True, sort_keys=True)


def _normalised(value: Any) -> Any:
    if isinstance(value, str):
        text = _SPACES.sub(" ", unicodedata.normalize("NFC", value)).strip()
        return _normalised_url(text) if _URL.match(text) else text
    if isinstance(value, Mapping):
        return {str(name): _normalised(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_normalised(inner) for inner in value]
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def _normalised_url(url: str) -> str:
    """Scheme and host in lower case, without user name, usual port and fragment; the rest as it is."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return _USER.sub("//", url)
    shown = f"[{host}]" if ":" in host else host
    if port is not None and port != _PORTS.get(parts.scheme.lower()):
        shown += f":{port}"
    return urlunsplit((parts.scheme.lower(), shown, parts.path or "/", parts.query, ""))


class Cassette:
    """A cassette file in a mode; thread-safe, and safe against other processes that record into it.

    `replay` never asks the tool, `record-missing` asks for what the file does not hold, `record` asks anew,
    once for each key. Whatever is asked live stands in the file before it is given out, and of two processes
    that record the same key with `record-missing` both give out the answer written first. A line that a
    killed process left unfinished is passed over and counted in `num_unreadable`.
    Raises ConfigurationError for an unknown mode, and in `replay` where there is no such file.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: CassetteMode = "replay",
        *,
        now: Callable[[], datetime] = lambda: datetime.now(timezone.utc),
    ) -> None:
        if mode not in get_args(CassetteMode):
            raise ConfigurationError(f"mode={mode!r} must be one of {', '.join(get_args(CassetteMode))}")
        self.path = Path(path)
        self.mode = mode
        self.num_unreadable = 0
        if mode == "replay" and not self.path.is_file():
            raise ConfigurationError(
                f"cassette={str(self.path)!r} is no file; record one first with online=true, or name another"
            )
        self._now = now
        self._lock = threading.Lock()
        self._answers: dict[str, tuple[str, bool]] = {}
        self._asked: set[str] = set()
        self._offset = 0
        self._read_on()

    def __len__(self) -> int:
        """How many requests it can answer."""
        return len(self._answers)

    def play(self, tool: str, arguments: Mapping[str, Any], live: Callable[[], str] | None = None) -> Played:
        """The answer to a request: from the file, or from `live`, which may raise ToolFailedError.

        Raises UnknownRequestError where the file has no answer and none may be asked for.
        """
        key = request_key(tool, arguments)
        found = self._found(key)
        if found is not None:
            return Played(*found, source="replayed")
        if self.mode == "replay" or live is None:
            raise UnknownRequestError(
                f"{tool} has no recorded answer to this request, and the internet is not available in this "
                "run; ask for something else, or answer with what you know"
            )
        try:
            answer = (live(), False)
        except ToolFailedError as error:
            answer = (str(error), True)
        return self._record(key, answer)

    def _found(self, key: str) -> tuple[str, bool] | None:
        with self._lock:
            if self.mode == "record" and key not in self._asked:
                return None
            if key not in self._answers and self.mode != "replay":
                self._read_on()
            return self._answers.get(key)

    def _record(self, key: str, answer: tuple[str, bool]) -> Played:
        with self._lock, self._file_lock():
            self._read_on()
            is_taken = key in (self._asked if self.mode == "record" else self._answers)
            if is_taken:  # another thread or process was faster
                return Played(*self._answers[key], source="replayed")
            tool, arguments = json.loads(key)
            line = json.dumps(
                {
                    "version": VERSION,
                    "tool": tool,
                    "arguments": arguments,
                    "outcome": "error" if answer[1] else "result",
                    "text": answer[0],
                    "recorded_at": self._now().isoformat(timespec="seconds"),
                },
                ensure_ascii=True,  # lone surrogates too, which pages do contain
            )
            self._append(line.encode("ascii"))
            self._asked.add(key)
            self._answers[key] = answer
        return Played(*answer, source="recorded")

    def _append(self, line: bytes) -> None:
        """Writes a whole line; a line that a killed process left unfinished is ended first."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            end = file.seek(0, os.SEEK_END)
            if end:
                file.seek(end - 1)
                if file.read(1) != b"\n":
                    line = b"\n" + line
            file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def _read_on(self) -> None:
        """Reads what was appended since; what does not end in a line end is not there yet."""
        if not self.path.is_file():
            return
        with self.path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        for line in filter(None, whole.split(b"\n")):
            read = _read(line)
            if read is None:
                self.num_unreadable += 1
            elif not (self.mode == "record" and read[0] in self._asked):
                self._answers[read[0]] = read[1]

    def _file_lock(self) -> Any:
        try:
            import filelock
        except ImportError as error:
            raise MissingDependencyError("filelock", "engine") from error
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return filelock.FileLock(f"{self.path}.lock", timeout=LOCK_TIMEOUT_S)


def _read(line: bytes) -> tuple[str, tuple[str, bool]] | None:
    """The key and the answer of a line; None for anything else that a file may hold."""
    try:
        match json.loads(line):
            case {
                "version": 1,
                "tool": str(tool),
                "arguments": dict(arguments),
                "outcome": "result" | "error" as outcome,
                "text": str(text),
            }:
                return _key(tool, arguments), (text, outcome == "error")
    except ValueError:
        pass
    return None
