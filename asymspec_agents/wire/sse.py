"""Server-sent events: the frames of a streamed answer, written and read.

Source: WHATWG HTML, section 9.2 (server-sent events). Only line ends of that standard split lines: JSON texts
hold U+2028 and its like, which other splitters would break at.
"""

from __future__ import annotations

import codecs
import re

from ..errors import BackendError

__all__ = ["COMMENT", "DONE", "EventParser", "event"]

COMMENT = b": waiting\n\n"  # keeps a silent connection open; readers skip it
DONE = "[DONE]"
MAX_EVENT_BYTES = 64 * 1024**2

_LINE_END = re.compile(rb"\r\n|\n|\r")


def event(data: str) -> bytes:
    """One event with this data, which must be a single line (as JSON without indentation is)."""
    return f"data: {data}\n\n".encode()


class EventParser:
    """Bytes as they come to the data of whole events."""

    def __init__(self) -> None:
        self._line: list[bytes] = []  # the pieces of a line without its end yet
        self._data: list[bytes] = []
        self._num_bytes = 0
        self._is_first = True
        self._may_skip_newline = False

    def feed(self, chunk: bytes) -> list[str]:
        """The data of every event that this chunk completes. Raises BackendError for one without end."""
        if self._may_skip_newline and chunk:  # the line ended with \r; this may be the \n of \r\n
            chunk = chunk.removeprefix(b"\n")
            self._may_skip_newline = False
        self._may_skip_newline |= chunk.endswith(b"\r")
        first, *others = _LINE_END.split(chunk)
        self._line.append(first)
        self._num_bytes += len(chunk)
        events = []
        for piece in others:
            event = self._end_of_line()
            if event is not None:
                events.append(event)
            self._line = [piece]
        if self._num_bytes > MAX_EVENT_BYTES:
            raise BackendError(f"an event of the stream is longer than {MAX_EVENT_BYTES:,} bytes")
        return events

    def _end_of_line(self) -> str | None:
        """Takes the line in; the event's data where an empty line ends it."""
        line = b"".join(self._line)
        if self._is_first:
            line = line.removeprefix(codecs.BOM_UTF8)
            self._is_first = False
        if line:
            name, _, value = line.partition(b":")
            if name == b"data":
                self._data.append(value.removeprefix(b" "))
            return None
        data, self._data, self._num_bytes = self._data, [], 0
        return b"\n".join(data).decode("utf-8", errors="replace") if data else None
