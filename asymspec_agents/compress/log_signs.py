"""What failures look like in the output of programs: compilers, test runners, package managers, shells.

A few words say which lines may tell of one; patterns then judge those lines alone, so long output is cheap.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

__all__ = ["FAILURE", "HINT", "is_output", "plain", "severities"]

HINT, FAILURE = 1, 2  # how surely a line tells of a failure
_HINTS = [
    "error",
    "err!",
    "exception",
    "panic",
    "fatal",
    "fail",
    "denied",
    "killed",
    "segmentation",
    "traceback",
    "critical",
    "severe",
    "abort",
    "refused",
    "undefined",
    "cannot",
    "unable",
    "emerg",
    "alert",
    "***",
    "assert",
    "unhandled",
    "uncaught",
    "sanitizer",
    "fault",
]
_HINTS += ["caused by", "could not", "not found", "no such", "no space", "timed out", "core dumped"]
_HINTS += ["out of memory", "oom", "not ok", "exit code", "exit status", "exited with", "returned non-zero"]
_FAILURE = re.compile(
    r"(?:^|[\s:\]>])(?:fatal |internal )?(?:error|Error|ERROR|fatal|FATAL|CRITICAL|SEVERE|panic|PANIC)"
    r"(?:\[\w+\]| [A-Z]{1,5}[0-9]+)?: "
    r"|(?:error|Error|ERROR|fatal|FATAL|panic|ERR!):?$|^\S+ ERR!|\*\*\* "
    r"|^\W{0,4}Traceback \(|panicked at |^\s*Caused by: |Exception in thread|[Uu]nhandled |[Uu]ncaught "
    r"|^\W{0,4}(?:[\w$]+[.:]+)*[A-Z]\w*(?:Error|Exception|Fault)(?:: |$)|\(\w+(?:::\w+)*Error\)$"
    r"|Segmentation fault|core dumped|Bus error|Illegal instruction|\bAborted\b|^Killed\b"
    r"|Killed process|OOMKilled"
    r"|[Oo]ut of memory|Permission denied|No such file or directory|(?:command|[Mm]odule) not found"
    r"|Connection refused|No space left|Operation not permitted|undefined (?:reference|symbol)"
    r"|\b(?:FAILED|FAILURE|FAIL)\b|^not ok\b|(?:CMake|Fatal) (?:E|e)rror\b|Sanitizer: "
    r"|Assertion .{0,300}failed"
    r"|\b(?:exit code|exit status|exited with(?: code)?|returned non-zero exit status):? -?[1-9]"
)
_HINT = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|SEVERE|PANIC|EMERG|ALERT)\b|\b(?:[Ee]rror|[Ee]xception|panic|fatal)\b(?!\.\w)"
    r"|\b\w+(?:Error|Exception)\b|\b[Ff]ailed\b|\bcannot\b|[Cc]ould not\b|\b[Uu]nable to\b|\b[Aa]bort"
    r"|\bdenied\b|\brefused\b|\btimed out\b|\bundefined\b|(?<!\b[01] )\bfailures?\b"
)
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_MAX_JUDGED = 1_000  # characters of a line
_MAX_SUSPECTS = 50_000  # lines

_WORD = re.compile(r"[(\"'“‘*_]*[^\W\d_]+(?:['’-][^\W\d_]+)*[)\"'”’*_.,;:!?…]*")
_MARK = re.compile(r"[-*•–—+]")  # of a list's item
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]{8}")
_NUMBERS = re.compile(r"[0-9]+")
_MIN_LINES = 8
_PROSE_WORDS_SHARE = 0.75
_OUTPUT_SHARE = 0.6  # of the lines that are no prose, in output
_REPEATS, _REPEATED_SHARE = 4, 0.6  # lines that differ in numbers only, so often, so many of all


def plain(text: str) -> str:
    """The text without the terminal's colour codes."""
    return _COLOUR.sub("", text) if "\x1b[" in text else text


def severities(lines: Sequence[str]) -> dict[int, int]:
    """FAILURE or HINT for each line that tells of a failure, in order."""
    found: dict[int, int] = {}
    for index in _suspects(lines):
        line = plain(lines[index][:_MAX_JUDGED])
        if _FAILURE.search(line):
            found[index] = FAILURE
        elif _HINT.search(line):
            found[index] = HINT
    return found


def is_output(sample: Sequence[str], text: str) -> bool:
    """Whether a text, of which `sample` are some lines, is what programs print: not prose, and repeating
    itself or telling of a failure."""
    lines = [line for line in sample if line.strip()]
    if len(lines) < _MIN_LINES or sum(map(_is_prose, lines)) > (1 - _OUTPUT_SHARE) * len(lines):
        return False
    counts: dict[str, int] = {}
    for line in lines:
        pattern = _NUMBERS.sub("#", line[:_MAX_JUDGED])
        counts[pattern] = counts.get(pattern, 0) + 1
    repeated = sum(count for pattern, count in counts.items() if count >= _REPEATS and "#" in pattern)
    return repeated >= _REPEATED_SHARE * len(lines) or _tells_of_failure(text.split("\n"))


def _is_prose(line: str) -> bool:
    """Whether a line is running text: words in a row, or a script without spaces."""
    words = [word for word in line[:_MAX_JUDGED].split() if not _MARK.fullmatch(word)]
    num_plain = sum(_WORD.fullmatch(word) is not None for word in words)
    return num_plain >= _PROSE_WORDS_SHARE * len(words) or _UNSPACED.search(line[:_MAX_JUDGED]) is not None


def _tells_of_failure(lines: Sequence[str]) -> bool:
    """Whether any line surely does."""
    return any(_FAILURE.search(plain(lines[index][:_MAX_JUDGED])) for index in _suspects(lines))


def _suspects(lines: Sequence[str]) -> list[int]:
    """The lines, in order, that hold a word which failures are told with."""
    folded = [line.casefold() for line in lines]
    whole = "\n".join(folded)
    starts = [0, *accumulate(len(line) + 1 for line in folded)]
    found: set[int] = set()
    for hint in _HINTS:
        at = whole.find(hint)
        while at >= 0 and len(found) < _MAX_SUSPECTS:
            index = bisect_right(starts, at) - 1
            found.add(index)
            at = whole.find(hint, starts[index + 1])
    return sorted(found)
