"""GAIA's question_scorer: exact match of numbers, lists and texts, after a light normalisation.

Source: scorer.py of the GAIA leaderboard (gaia-benchmark), re-implemented. A model's answer comes after
"FINAL ANSWER:", as the official prompt asks.
"""

from __future__ import annotations

import re
import string
from dataclasses import dataclass
from typing import Literal

__all__ = ["Verdict", "final_answer", "question_score"]

_MARKER = re.compile(r"final[ \t]+answer[ \t]*:", re.IGNORECASE)
_SEPARATOR = re.compile(r"[,;]")
_SPACE = re.compile(r"\s")
_UNITS = str.maketrans("", "", "$%,")
_PUNCTUATION = str.maketrans("", "", string.punctuation)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether an answer is right, and as what the gold answer was read."""

    is_correct: bool
    kind: Literal["number", "list", "text"]


def final_answer(response: str) -> str:
    """The answer a response ends with: what follows the last "FINAL ANSWER:" (in any case).

    It is the rest of that line, or else the next line that is not blank, without Markdown's bold and without
    one pair of brackets around it all, which models copy from the prompt's template. A marker that nothing
    follows counts for none. A response without one is the answer as a whole. Applied to an answer, this
    returns the answer.
    """
    marks = list(_MARKER.finditer(response))
    if not marks:
        return _plain(response)
    ends = [mark.start() for mark in marks[1:]] + [len(response)]
    for mark, end in reversed(list(zip(marks, ends, strict=True))):
        for line in response[mark.end() : end].splitlines():
            answer = _without_brackets(_plain(line))
            if answer:
                return answer
    return ""


def question_score(answer: str | None, gold: str) -> Verdict:
    """The official verdict on an answer; an empty answer is never right.

    A gold that Python reads as a float is a number: `$`, `%` and `,` are dropped from the answer, and both
    must be equal. One with a comma or semicolon is a list, in order, also where it is meant as a number
    ("1,000"): lengths must agree, numbers are compared as numbers, texts without whitespace and in lower
    case. Any other is a text, compared without whitespace and punctuation and in lower case.

    Stricter than the official scorer in one place: what is no number never equals the gold "inf".
    """
    given = answer or ""
    is_given = bool(given.strip())
    if _is_number(gold):
        return Verdict(is_given and _equals_number(given, gold), "number")
    if _SEPARATOR.search(gold):
        wanted, found = _SEPARATOR.split(gold), _SEPARATOR.split(given)
        is_equal = len(wanted) == len(found) and all(map(_equals_element, found, wanted))
        return Verdict(is_given and is_equal, "list")
    is_equal = _normal(given).translate(_PUNCTUATION) == _normal(gold).translate(_PUNCTUATION)
    return Verdict(is_given and is_equal, "text")


def _equals_element(given: str, gold: str) -> bool:
    if _is_number(gold):
        return _equals_number(given, gold)
    return _normal(given) == _normal(gold)


def _equals_number(given: str, gold: str) -> bool:
    try:
        return float(given.translate(_UNITS)) == float(gold)
    except ValueError:
        return False


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _normal(text: str) -> str:
    return _SPACE.sub("", text).lower()


def _plain(text: str) -> str:
    """The text without whitespace and Markdown's bold around it."""
    while True:
        stripped = text.strip().removeprefix("**").removesuffix("**")
        if stripped == text:
            return text
        text = stripped


def _without_brackets(text: str) -> str:
    inner = text[1:-1]
    if len(text) > 1 and text[0] == "[" and text[-1] == "]" and not set("[]") & set(inner):
        return _plain(inner)
    return text
