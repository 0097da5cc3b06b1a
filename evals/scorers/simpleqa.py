"""SimpleQA's grades: read out of a grader's reply, and the aggregates over them.

Source: openai/simple-evals, simpleqa_eval.py; "Measuring short-form factuality in large language models"
(arXiv 2411.04368), section 2.3, for F.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["GRADES", "Aggregate", "Grade", "aggregate", "paper_grade", "strict_grade"]

Grade = Literal["correct", "incorrect", "not_attempted"]

GRADES: tuple[Grade, ...] = ("correct", "incorrect", "not_attempted")

_LETTERS: dict[str, Grade] = {"A": "correct", "B": "incorrect", "C": "not_attempted"}
_LETTER = re.compile(r"\b([ABC])\b")
_ARTICLE = re.compile(r"A [a-z]")
_WORD = re.compile(r"\b(NOT[_ ]ATTEMPTED|INCORRECT|(?<!NOT )CORRECT)\b")


def strict_grade(reply: str) -> Grade | None:
    """The grade of the first letter A, B or C that stands alone; else of the grade named in capitals.

    None where the reply has neither, or names several grades without a letter: such a reply is no grade. An
    `A` before a lower-case word is taken for the article if the reply names a grade in capitals.
    """
    words: set[Grade] = {_of_word(word) for word in _WORD.findall(reply)}
    letter = _LETTER.search(reply)
    if letter is not None and not (words and _ARTICLE.match(reply, letter.start())):
        return _LETTERS[letter.group(1)]
    return words.pop() if len(words) == 1 else None


def paper_grade(reply: str) -> Grade:
    """The grade by the official parse: the first capital A, B or C anywhere, also within a word; else C.

    It reads the words CORRECT and INCORRECT as C and NOT_ATTEMPTED as A, and is here to repeat published
    figures only.
    """
    letter = re.search("[ABC]", reply)
    return _LETTERS[letter.group()] if letter else "not_attempted"


@dataclass(frozen=True, slots=True)
class Aggregate:
    """Shares of all questions, in [0, 1]; `ungraded` are those without a grade, which count as not correct.

    `accuracy_given_attempted` is correct / (correct + incorrect); `f` the harmonic mean of it and `correct`.
    Both are 0 where they would divide by 0.
    """

    correct: float
    incorrect: float
    not_attempted: float
    ungraded: float
    accuracy_given_attempted: float
    f: float


def aggregate(grades: Sequence[Grade | None]) -> Aggregate:
    """The official aggregates; None stands for a question that failed or whose grading did."""
    counts = Counter(grades)
    total = len(grades) or 1
    correct, incorrect = counts["correct"] / total, counts["incorrect"] / total
    attempted = correct + incorrect
    accuracy = correct / attempted if attempted else 0.0
    both = accuracy + correct
    return Aggregate(
        correct,
        incorrect,
        counts["not_attempted"] / total,
        counts[None] / total,
        accuracy,
        2 * accuracy * correct / both if both else 0.0,
    )


def _of_word(word: str) -> Grade:
    return {"CORRECT": GRADES[0], "INCORRECT": GRADES[1]}.get(word, GRADES[2])
