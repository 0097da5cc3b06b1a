"""What belongs to a failure that a program reports: the lines of its stack trace, and those around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from .log_signs import plain

__all__ = ["Trace", "trace_at"]

_CONTINUES = re.compile(
    r"\s+\S|(?:[\w$]+[.:]+)*\w*(?:Error|Exception)\b|Caused by:|During handling"
    r"|The above exception|Traceback \(|goroutine \d"
    r"|stack backtrace|Stack trace|#\d+ |E  |note: |\.\.\. \d+ more|[0-9]+ *\| |--> "
    r"|[\w./*()\[\]-]+\([^()]*\)$|npm ERR! "
)
_RESUMES = re.compile(
    r"During handling|The above exception|Traceback \(|goroutine \d|Caused by:|stack backtrace|Stack trace"
)
_ANNOUNCES = re.compile(r"panicked at .*:$")  # what went wrong stands on the next line
_REASON = re.compile(r"\s*(?:Caused by:|(?:[\w$]+[.:]+)*[A-Z]\w*(?:Error|Exception)(?:\b|:))")
_LIBRARY = re.compile(
    r"site-packages|dist-packages|/lib/python3|<frozen |node_modules|\bat (?:java|javax|jdk|sun)\.|/rustc/"
    r"|\bcore::|\bstd::|/usr/local/go/|/usr/lib/ruby"
)
_MAX_TRACE_LINES = 400
_NUM_FRAMES = 4  # lines of the program's own frames that come with the failure itself
_NUM_LAST_FRAMES = 4  # as many at the other end, where Python has what failed
_NUM_BEFORE, _NUM_AFTER = 2, 3
_MAX_REST = 40


@dataclass(frozen=True, slots=True)
class Trace:
    """The lines of one failure: what went wrong with the nearest frames, and the rest, best first."""

    core: tuple[int, ...]
    rest: tuple[int, ...]


def trace_at(lines: Sequence[str], index: int) -> Trace:
    """The trace that begins with the line at `index`, and the lines around it."""
    end = _end(lines, index)
    inner = range(index + 1, end)
    reasons = [i for i in inner if _REASON.match(plain(lines[i][:400]))]
    if _ANNOUNCES.search(plain(lines[index])):
        reasons[:0] = inner[:1]
    own = [i for i in inner if not _of_library(lines, i)]
    frames = own[:_NUM_FRAMES]
    if "Traceback" in lines[index]:
        frames = own[:2] + own[-_NUM_LAST_FRAMES:]
    core = dict.fromkeys([index, *inner[-1:], *reasons, *frames])
    before = range(index - 1, max(index - 1 - _NUM_BEFORE, -1), -1)
    after = range(end, min(end + _NUM_AFTER, len(lines)))
    rest = dict.fromkeys([*before, *own[:_MAX_REST], *after, *inner[:_MAX_REST]])
    return Trace(tuple(core), tuple(i for i in rest if i not in core))


def _end(lines: Sequence[str], index: int) -> int:
    """The first line after the trace."""
    end = index + 1
    if end < len(lines) and _ANNOUNCES.search(plain(lines[index])):
        end += 1
    last = min(index + _MAX_TRACE_LINES, len(lines))
    while end < last:
        line = plain(lines[end][:400])
        if not line.strip():
            if end + 1 >= last or not _RESUMES.match(plain(lines[end + 1][:400])):
                break
        elif not _CONTINUES.match(line):
            break
        end += 1
    return end


def _of_library(lines: Sequence[str], index: int) -> bool:
    """Whether a line of a trace, or the frame that it is the source of, lies in an installed library."""
    return any(_LIBRARY.search(lines[i][:400]) for i in (index, index - 1))
