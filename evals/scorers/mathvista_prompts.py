"""MathVista's prompts: the query of a problem, and what a judge is asked that extracts a response's answer.

Source: the released data/query.json of lupantech/MathVista for the query; evaluation/extract_answer.py for
the extraction (five examples, then the response), whose wording here is our own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["extraction_prompt", "extraction_reply", "query_of"]

_HINT = "Hint: Please answer the question"
_ASKED = {
    "integer": "requiring an integer answer and provide the final value, e.g., 1, 2, 3,",
    "list": "requiring a Python list as an answer and provide the final list, "
    "e.g., [1, 2, 3], [1.2, 1.3, 1.4],",
}
_PLACES = {
    None: "and provide the final value",
    1: "with one decimal place and provide the final value, e.g., 1.2, 1.3, 1.4,",
    2: "with two decimal places and provide the final value, e.g., 1.23, 1.34, 1.45,",
}
_LABEL = re.compile(r"\s*extracted answer:", re.IGNORECASE)


def query_of(
    question: str,
    *,
    question_type: str,
    answer_type: str,
    choices: Sequence[str] = (),
    unit: str | None = None,
    precision: int | None = None,
) -> str:
    """The official query: a hint on the form of the answer, the question with its unit, lettered choices.

    The release has floats of one and two places only; the hint for others names their number, and a free-form
    text has none.
    """
    hint = ""
    if question_type == "multi_choice":
        hint = f"{_HINT} and provide the correct option letter, e.g., A, B, C, D, at the end.\n"
    elif answer_type == "float":
        places = _PLACES.get(precision, f"with {precision} decimal places and provide the final value")
        hint = f"{_HINT} requiring a floating-point number {places} at the end.\n"
    elif answer_type in _ASKED:
        hint = f"{_HINT} {_ASKED[answer_type]} at the end.\n"
    lines = [f"{hint}Question: {question}" + (f" (Unit: {unit})" if unit else "")]
    if choices:
        lines.append("Choices:")
        lines += [f"({chr(ord('A') + number)}) {choice}" for number, choice in enumerate(choices)]
    return "\n".join(lines)


def extraction_prompt(query: str, response: str) -> str:
    """What the judge is asked: task, five examples, the query and the response."""
    return f"{_EXAMPLES}\n\n{query}\n\nModel response: {response}\n\nExtracted answer:"


def extraction_reply(reply: str) -> str:
    """The judge's answer, without the label that some repeat."""
    label = _LABEL.match(reply)
    return reply[label.end() if label is not None else 0 :].strip()


def _examples() -> str:
    boats = query_of("How many boats are in the harbour?", question_type="free_form", answer_type="integer")
    tiles = query_of(
        "What share of the tiles is grey?", question_type="free_form", answer_type="float", precision=1
    )
    pen = query_of(
        "What do a pen and a ruler cost together?",
        question_type="free_form",
        answer_type="float",
        unit="$",
        precision=2,
    )
    rain = query_of("In which years was the rainfall lowest?", question_type="free_form", answer_type="list")
    angles = query_of(
        "Which angle is the largest?",
        question_type="multi_choice",
        answer_type="text",
        choices=("35°", "60°", "85°", "20°"),
    )
    shown = (
        (boats, "Counting from left to right, there are 9 boats in the harbour.", "9"),
        (tiles, "Four of the ten tiles are grey, so the share is 0.4.", "0.4"),
        (pen, "The pen costs $1.20 and the ruler $0.95. Together they cost $2.15.", "2.15"),
        (rain, "The two lowest bars are those of 1996 and 2003.", "[1996, 2003]"),
        (angles, "Comparing all four angles, the largest one is (C) 85°.", "C"),
    )
    task = (
        "Each example has a question, a model's response and the answer extracted from it. Extract the "
        "answer of the last response in the same way, and write nothing else."
    )
    examples = (
        f"{query}\n\nModel response: {response}\n\nExtracted answer: {answer}"
        for query, response, answer in shown
    )
    return "\n\n".join([task, *examples])


_EXAMPLES = _examples()
