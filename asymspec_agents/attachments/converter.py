"""Converts files in a process of its own, which is ended when it takes too long.

A file made by others may hang a converter, crash it or fill the memory, and a thread cannot be stopped. So a
child process does it, started at the first file and used again until it has to be ended. It is no fork and
does not run the program's main module anew. What comes back from it is JSON and bytes.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass
from typing import Any, BinaryIO

from .policy import AttachmentPolicy

__all__ = ["Conversion", "Converter"]

_BOOT = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from asymspec_agents.attachments.worker.__main__ import main; main()"
)
_MAX_ANSWER_BYTES = 1024 * 1024 * 1024
_START_S = 20.0  # the first request's time is longer by that of starting an interpreter
_MODULE_EXTRAS = {"PIL": "vision"}


@dataclass(frozen=True, slots=True)
class Conversion:
    """What became of a file: text and what else is known of it, or the `problem` that there is none.

    `num_lost` parts of it could not be read, which the text marks. `num_frames` pages or frames are in an
    image. `missing_extra` names what is to be installed where that is the problem.
    """

    text: str = ""
    title: str | None = None
    length: str | None = None
    pages: tuple[int, ...] = ()
    pictures: tuple[bytes, ...] = ()
    lacks_text: bool = False
    num_lost: int = 0
    num_frames: int = 1
    scaled: tuple[int, int] | None = None
    problem: str | None = None
    missing_extra: str | None = None


class _Process:
    """One child and its pipes."""

    def __init__(self) -> None:
        self.pid_of_parent = os.getpid()
        self.is_fresh = True
        self.child = subprocess.Popen(
            [sys.executable, "-c", _BOOT, json.dumps([str(path) for path in sys.path])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # what libraries say there may quote a file
        )

    @property
    def is_usable(self) -> bool:
        return self.child.poll() is None and self.pid_of_parent == os.getpid()

    def end(self) -> None:
        if self.pid_of_parent == os.getpid():  # a forked process leaves its parent's child alone
            self.child.kill()
            self.child.wait()
        for pipe in (self.child.stdin, self.child.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # unsent bytes, nobody left to read them
                    pipe.close()


class Converter:
    """Converts one file at a time, whichever threads ask; after `close` a new call starts a new process."""

    def __init__(self, policy: AttachmentPolicy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self._process: _Process | None = None
        self._finalizer: weakref.finalize[Any, Any] | None = None

    def convert(self, kind: str, data: bytes, *, ocr_pages: int = 0) -> Conversion:
        """The file's text; `ocr_pages` pictures of pages without text at most. Never raises for a file."""
        policy = self._policy
        header = {
            "kind": kind,
            "timeout_s": policy.convert_timeout_s,
            "max_memory_bytes": policy.max_memory_bytes,
            "limits": {
                "max_pages": policy.max_pages,
                "max_text_chars": policy.max_text_chars,
                "max_unpacked_bytes": policy.max_unpacked_bytes,
                "max_unpack_ratio": policy.max_unpack_ratio,
                "max_entries": policy.max_entries,
                "max_pixels": policy.max_pixels,
                "ocr_pages": ocr_pages,
            },
        }
        with self._lock:
            try:
                process = self._running()
            except (OSError, ValueError, TypeError):  # no interpreter to start, no processes allowed
                return Conversion(problem="no process could be started to convert it in")
            return self._asked(process, header, data)

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            self._end()

    def _running(self) -> _Process:
        if self._process is not None and not self._process.is_usable:
            self._end()
        if self._process is None:
            self._process = _Process()
            self._finalizer = weakref.finalize(self, self._process.end)
        return self._process

    def _end(self) -> None:
        if self._finalizer is not None:
            self._finalizer()  # calls the process's end, once
        self._process = self._finalizer = None

    def _asked(self, process: _Process, header: dict[str, Any], data: bytes) -> Conversion:
        timeout_s = self._policy.convert_timeout_s + (_START_S if process.is_fresh else 0)
        process.is_fresh = False
        is_late = threading.Event()

        def stop() -> None:
            is_late.set()
            process.child.kill()

        timer = threading.Timer(timeout_s, stop)
        timer.daemon = True
        timer.start()
        try:
            made = _exchanged(process.child, header, data)
        except (OSError, EOFError, ValueError, KeyError, TypeError, struct.error, RecursionError):
            self._end()
            if is_late.is_set():
                return Conversion(problem=f"it took longer than {self._policy.convert_timeout_s:g} seconds")
            return Conversion(problem="the converter crashed on it")
        finally:
            timer.cancel()
        return made


def _exchanged(child: subprocess.Popen[bytes], header: dict[str, Any], data: bytes) -> Conversion:
    requests, answers = child.stdin, child.stdout
    if requests is None or answers is None:
        raise EOFError
    encoded = json.dumps(header).encode()
    requests.write(struct.pack(">II", len(encoded), len(data)) + encoded)
    requests.write(data)
    requests.flush()
    (num_fields,) = struct.unpack(">I", _read(answers, 4))
    fields = json.loads(_read(answers, num_fields))
    if not isinstance(fields, dict):
        raise ValueError("an answer of another form")
    missing = fields.get("missing")
    if missing is not None:
        extra = _MODULE_EXTRAS.get(missing, "documents")
        advice = f'reading it needs: pip install "asymspec-agents[{extra}]"'
        return Conversion(problem=advice, missing_extra=extra)
    if "problem" in fields:
        return Conversion(problem=str(fields["problem"]))
    return Conversion(
        text=str(fields["text"]),
        title=fields["title"],
        length=fields["length"],
        pages=tuple(fields["pages"]),
        lacks_text=fields["lacks_text"] is True,
        num_lost=int(fields["num_lost"]),
        num_frames=int(fields["num_frames"]),
        scaled=tuple(fields["scaled"]) if fields["scaled"] is not None else None,
        pictures=tuple(_read(answers, size) for size in fields["blobs"]),
    )


def _read(answers: BinaryIO | Any, size: int) -> bytes:
    if not 0 <= size <= _MAX_ANSWER_BYTES:
        raise ValueError("an answer of an impossible size")
    data: bytes = answers.read(size)
    if len(data) < size:
        raise EOFError
    return data
