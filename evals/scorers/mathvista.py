"""MathVista's scoring: the answer in a response, and its normal form, which must equal the gold answer.

Source: evaluation/extract_answer.py and calculate_score.py of lupantech/MathVista, re-implemented. Three
things are other than there: an empty answer is no choice (upstream it becomes the nearest one, the shortest),
a number that is not finite equals nothing, and without a judge the last line of a response is read by our own
rules.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from asymspec_agents.errors import MissingDependencyError

from .mathvista_prompts import extraction_prompt, extraction_reply

__all__ = ["Extraction", "Problem", "extract", "normalised"]

Method = Literal["empty", "choice", "number", "phrase", "judge", "last_line", "none"]

_LETTER_IN_BRACKETS = re.compile(r"\(([a-zA-Z])\)")
_PHRASE = re.compile(r'The answer is "(.*)"\.')
_LEAD = re.compile(
    r".*(?:\banswer(?:\s+is)?\s*:|\banswer\s+is|答案[是为]?[:：]?|故选[:：]?)\s*", re.IGNORECASE
)
_LETTERED = re.compile(r"(?:option\s+)?\(?([A-Za-z])(?:[).:]\s*(.*))?", re.IGNORECASE | re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_LIST = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True, slots=True)
class Problem:
    """What a question's scoring depends on; `query` is what was asked, hint and choices included."""

    query: str
    question_type: str
    answer_type: str
    choices: tuple[str, ...] = ()
    precision: int | None = None

    @classmethod
    def of(cls, details: Mapping[str, Any]) -> Problem:
        """The problem in a sample's details."""
        return cls(
            details["query"],
            details["question_type"],
            details["answer_type"],
            tuple(details["choices"]),
            details["precision"],
        )


@dataclass(frozen=True, slots=True)
class Extraction:
    """The answer found in a response, and by what: `none` is a response in which nothing was found."""

    text: str
    method: Method


def extract(response: str, problem: Problem, ask: Callable[[str], str] | None = None) -> Extraction:
    """The answer in a response: as it stands where it is a choice or a number, or quoted in the set phrase
    `The answer is "…".`; else what the judge `ask` reads in it, or, without a judge, what the last line says.
    """
    text = response.strip()
    if not text:
        return Extraction("", "empty")
    if problem.question_type == "multi_choice" and text in problem.choices:
        return Extraction(text, "choice")
    number = _as_number(text, problem.answer_type)
    if number is not None:
        return Extraction(number, "number")
    phrase = _PHRASE.search(text)
    if phrase is not None:
        return Extraction(phrase.group(1), "phrase")
    if ask is not None:
        return Extraction(extraction_reply(ask(extraction_prompt(problem.query, text))), "judge")
    found = _in_last_line(text, problem)
    return Extraction("", "none") if found is None else Extraction(found, "last_line")


def normalised(extraction: str, problem: Problem) -> str | None:
    """The extraction in the form of a gold answer; None where it has none.

    Multiple choice: the choice of the first letter in brackets, or of a bare capital letter, else the choice
    nearest by edit distance, the first of equally near ones. Integers are truncated, floats rounded to the
    precision (to an integer without one, as Python's round does), lists and texts taken as they are.
    """
    text = extraction.strip()
    if not text:
        return None
    if problem.question_type == "multi_choice":
        return _choice(text, problem.choices)
    if problem.answer_type in ("integer", "float"):
        try:
            value = float(text)
            if not math.isfinite(value):
                return None
            is_integer = problem.answer_type == "integer"
            return str(int(value) if is_integer else round(value, problem.precision))
        except (ValueError, OverflowError):
            return None
    return text


def _as_number(text: str, answer_type: str) -> str | None:
    try:
        if answer_type == "integer":
            return str(int(text))
        if answer_type == "float":
            return str(float(text))
    except ValueError:
        pass
    return None


def _choice(text: str, choices: Sequence[str]) -> str | None:
    if not choices:
        return None
    bracketed = _LETTER_IN_BRACKETS.search(text)
    if bracketed is not None:
        text = bracketed.group(1).upper()
    index = ord(text) - ord("A") if len(text) == 1 else -1
    if 0 <= index < len(choices):
        return choices[index]
    try:
        from rapidfuzz.distance import Levenshtein
    except ImportError as error:
        raise MissingDependencyError("rapidfuzz", "evals") from error
    return min(choices, key=lambda choice: Levenshtein.distance(text, choice))


def _in_last_line(text: str, problem: Problem) -> str | None:
    """What the last line says, behind "answer:" or the like: one choice, number or list, or a text."""
    line = _LEAD.sub("", text.splitlines()[-1]).strip().strip("*$`").strip()
    if problem.question_type == "multi_choice":
        return _chosen(line, problem.choices) or _chosen(line.rstrip(".。"), problem.choices)
    line = line.rstrip(".。")
    if problem.answer_type == "list":
        lists = _LIST.findall(line)
        return lists[0] if len(lists) == 1 else None
    if problem.answer_type in ("integer", "float"):
        numbers = _NUMBER.findall(line.replace(",", "").replace("−", "-"))
        return numbers[0] if len(numbers) == 1 else None
    return line or None


def _chosen(line: str, choices: Sequence[str]) -> str | None:
    """A choice, or the letter of one, alone or before its text."""
    if line in choices:
        return line
    lettered = _LETTERED.fullmatch(line)
    if lettered is None:
        return None
    letter, rest = lettered.group(1).upper(), (lettered.group(2) or "").casefold()
    named = choices[ord(letter) - ord("A")] if ord(letter) - ord("A") < len(choices) else None
    return f"({letter})" if named is not None and (not rest or rest.startswith(named.casefold())) else None
