"""SimpleQA and SimpleQA Verified: short questions of fact, graded by a model.

The question alone is the prompt, as in the official runs, so there is no long text to shorten: with one call,
both views are the same. What is of interest here is the agent that searches (`react_simpleqa`).
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError

from ..judging import UnreadableReplyError
from ..prompts import prompt_named
from ..reading import Row, located, read_rows
from ..records import Output, Record, Score
from ..sample import Sample
from ..scorers.simpleqa import GRADES, Grade, aggregate, paper_grade, strict_grade
from ..sources import fetch, hub_file
from ..suite import Judge, Result, Suite
from .loading import with_own_ids

__all__ = ["SimpleQA", "SimpleQAVerified"]

URL = "https://openaipublic.blob.core.windows.net/simple-evals/simple_qa_test_set.csv"
SHA256 = "feee3f7e7db3617e94e8fcf1977b756ec420ef8568f4e0fcbbe0e92e9d5fc032"
PARSES = ("strict", "paper")


class SimpleQA(Suite):
    """SimpleQA's 4,326 questions. The figure and its parts are percentages of all questions, F among them.

    `parse`: how the grader's letter is read. "strict" takes a letter that stands alone, or a grade in
    capitals, and a reply with neither is an error of the judge; "paper" is the official parse, slips and
    all. An empty answer is not attempted, without asking.
    """

    name = "simpleqa"
    title = "SimpleQA"
    metric = "correct"
    needs_judge = True
    source = "openai/simple-evals, simple_qa_test_set.csv (MIT)"
    file_name = "simple_qa_test_set.csv"

    def __init__(self, parse: str = "strict") -> None:
        if parse not in PARSES:
            raise ConfigurationError(f"parse={parse!r} must be {' or '.join(PARSES)}")
        self.parse = parse

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        rows = read_rows(located(path, self.file_name) if path else self.release())
        samples = []
        times: dict[str, int] = {}
        for row in rows:
            sample = self.sample(row)
            times[sample.id] = times.get(sample.id, 0) + 1
            if times[sample.id] == 1:  # the same question with the same answer asks nothing new
                samples.append(sample)
        return with_own_ids(samples)

    def release(self) -> Path:
        """The file of the official release."""
        return fetch(URL, sha256=SHA256)

    def sample(self, row: Row) -> Sample:
        """The sample of a record, whose id is made from question and answer: the release has none."""
        question, gold = row.text("problem"), row.text("answer")
        about = _metadata(row)
        return Sample(
            suite=self.name,
            id=hashlib.sha256(f"{question}\0{gold}".encode("utf-8", "surrogatepass")).hexdigest()[:16],
            messages=({"role": "user", "content": question},),  # type: ignore[arg-type]
            query=question,
            gold=gold,
            max_tokens=512,
            groups={name: str(about[name]) for name in ("topic", "answer_type") if about.get(name)},
        )

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        if not output.answer.strip():
            return _score("not_attempted", {"judge": None})
        if judge is None:
            raise ConfigurationError(f"{self.name} is graded by a model; name a judge")
        prompt = prompt_named(self.prompt_name()).format(
            question=sample.query, target=sample.gold, answer=output.answer
        )
        reply = judge.ask(prompt)
        grade = paper_grade(reply) if self.parse == "paper" else strict_grade(reply)
        if grade is None:
            raise UnreadableReplyError(judge.name, reply)
        return _score(grade, {"judge": judge.name, "reply": reply})

    def prompt_name(self) -> str:
        """Which grader prompt."""
        return "simpleqa"

    def figure(self, records: Sequence[Record]) -> Result:
        shares = asdict(aggregate([_grade(record) for record in records]))
        parts = {name: 100 * value for name, value in shares.items()}
        return Result(parts["correct"], parts)


class SimpleQAVerified(SimpleQA):
    """SimpleQA Verified's 1,000 questions, with its own grader prompt; otherwise as SimpleQA."""

    name = "simpleqa_verified"
    title = "SimpleQA Verified"
    source = "google/simpleqa-verified on the Hugging Face hub (MIT)"
    file_name = "simpleqa_verified.csv"

    def release(self) -> Path:
        return hub_file("google/simpleqa-verified", self.file_name)

    def prompt_name(self) -> str:
        return "simpleqa_verified"


def _metadata(row: Row) -> dict[str, Any]:
    """What a record says of its question: in columns, or in one column as the text of a Python dict."""
    text = row.get("metadata")
    if not isinstance(text, str):
        return dict(row.fields)
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _score(grade: Grade, details: dict[str, Any]) -> Score:
    values: dict[str, float] = {name: float(name == grade) for name in GRADES}
    return Score(values=values, details={"grade": grade, **details})


def _grade(record: Record) -> Grade | None:
    if record.score is None:
        return None
    return next(grade for grade in GRADES if record.score.values[grade])
