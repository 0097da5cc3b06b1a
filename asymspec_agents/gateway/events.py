"""A stream of server-sent events passed on whole event by whole event, so that it can fail between two.

An event's bytes stay as they came. What is no event of a completion, or a stream that ends before its answer
does, raises BackendError.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from ..errors import BackendError
from ..wire import sse
from ..wire.failures import Failure
from ..wire.reading import read_object
from .splicing import encoded, with_fields

__all__ = ["EventTap", "failure_events", "whole_events"]

_LINE_END = re.compile(rb"\r\n|\n|\r")
_END = re.compile(rb"\n\n|\r\n\r\n|\r\r|\n\r\n")
LONGEST_END = 4
MAX_EVENT_BYTES = 16 * 1024**2
MAX_KEPT_BYTES = 4 * 1024**2
# Source: HTML Standard, 9.2.6 (it has clients skip any other line, a web page's as well).
_FIELDS = frozenset({b"", b"data", b"event", b"id", b"retry"})


class EventTap:
    """Reads what passes: whether the answer is whole, its last usage, its report; adds a report if told to.

    `keeps` what has passed in `kept`, up to MAX_KEPT_BYTES; beyond them it is None.
    """

    def __init__(self, report: Mapping[str, Any] | None = None, *, keeps: bool = False) -> None:
        self.kept: bytearray | None = bytearray() if keeps else None
        self.is_whole = False
        self.usage: Mapping[str, Any] | None = None
        self.has_report = False
        self.finish_reason: str | None = None
        self._report = report
        self._has_error = False
        self._begun: set[int] = set()  # choices by their index
        self._finished: set[int] = set()

    def whole(self, content: bytes) -> bytes:
        """An answer in one piece as it goes on. Raises BackendError for what is no JSON object."""
        self._keep(content)
        answer = read_object(content)
        self._read(answer)
        self.is_whole = True
        if self._report is not None and "asymspec" not in answer:
            return with_fields(content, {"asymspec": self._report})
        return content

    def passed(self, event: bytes) -> bytes:
        """The event as it goes on.

        Raises BackendError for what is no event, for data that is neither JSON nor the stream's end, and for
        that end where a choice has not said why it ends.
        """
        self._keep(event)
        lines = _LINE_END.split(event.removeprefix(codecs.BOM_UTF8))
        for line in lines:
            if line.strip() and line.partition(b":")[0] not in _FIELDS:
                raise BackendError("it holds a line that is of no event")
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
        if not data:  # a comment, or fields without data, which a client skips
            return event
        if data.strip() == sse.DONE.encode():
            if not self.is_whole:
                raise BackendError("the stream ended before its answer was whole")
            return event
        chunk = read_object(data)
        self._read(chunk)
        self._has_error |= bool(chunk.get("error"))
        self.is_whole = self._has_error or (bool(self._finished) and self._finished >= self._begun)
        if self.finish_reason is not None and self._report is not None and "asymspec" not in chunk:
            added, self._report = {"asymspec": self._report}, None
            others = [line + b"\n" for line in lines if line and not line.startswith(b"data:")]
            return b"".join([*others, b"data: ", with_fields(data.replace(b"\n", b" "), added), b"\n\n"])
        return event

    @property
    def num_tokens(self) -> int:
        """Tokens of the answer, 0 where it does not tell."""
        count = (self.usage or {}).get("completion_tokens")
        return count if isinstance(count, int) and count > 0 else 0

    def _keep(self, data: bytes) -> None:
        if self.kept is not None:
            self.kept += data
            if len(self.kept) > MAX_KEPT_BYTES:
                self.kept = None

    def _read(self, answer: Mapping[str, Any]) -> None:
        usage = answer.get("usage")
        self.usage = usage if isinstance(usage, dict) else self.usage
        self.has_report |= "asymspec" in answer
        choices = answer.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict):
                continue
            index = choice.get("index")
            index = index if isinstance(index, int) else 0
            self._begun.add(index)
            reason = choice.get("finish_reason")
            if isinstance(reason, str) and reason:
                self._finished.add(index)
                self.finish_reason = reason


async def whole_events(pieces: AsyncIterator[bytes], tap: EventTap) -> AsyncGenerator[bytes, None]:
    """The stream's events as they come, several together where they came together."""
    rest = bytearray()
    async for piece in pieces:
        num_searched = max(0, len(rest) - LONGEST_END + 1)
        rest += piece
        ends = [match.end() for match in _END.finditer(rest, num_searched)]
        if ends:
            block = bytes(rest[: ends[-1]])
            del rest[: ends[-1]]
            starts = [0, *ends[:-1]]
            passed: list[bytes] = []
            try:
                for start, end in zip(starts, ends, strict=True):
                    passed.append(tap.passed(block[start:end]))
            except BackendError:
                if passed:  # what came before it goes on
                    yield b"".join(passed)
                raise
            yield b"".join(passed)
        if len(rest) > MAX_EVENT_BYTES:
            raise BackendError(f"an event of the stream is longer than {MAX_EVENT_BYTES:,} bytes")
    if rest.strip():  # the last event's blank line is missing
        yield tap.passed(bytes(rest)) + b"\n\n"
    if not tap.is_whole:
        raise BackendError("the stream ended before its answer was whole")


def failure_events(failure: Failure) -> bytes:
    """The end of a stream that failed after its status was sent: the error, and the stream's end."""
    return sse.event(encoded(failure.body()).decode("ascii")) + sse.event(sse.DONE)
