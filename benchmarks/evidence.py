"""Questions with passages that support their answers, and how much of that evidence a shorter text still has.

Records are those of ASYMSPEC_DATA's multihop folder: questions of MuSiQue, HotpotQA and 2WikiMultiHopQA with
"Passage 1:", "Passage 2:" and so on as context. A fixed hash of a record's id puts it in the `dev` half, at
which rules may be looked at, or in the `test` half, which is only ever reported.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = ["Evidence", "Question", "questions"]

_SETS = ("musique", "hotpotqa", "2wikimqa")
_PASSAGE = re.compile(r"(?m)^Passage \d+:\n")
_WORD = re.compile(r"\w+")
_NUM_NEIGHBOURS = 2
_NUM_RUN = 3


@dataclass(frozen=True)
class Evidence:
    """What a view has of a question's evidence; None where the record has nothing of the kind.

    `answer`: 1 where a gold answer stands anywhere in the view. `supported_answer`: 1 where one stands in the
    view as it does in a supporting passage, that is with the two words before it or the two after it.
    `supporting`: share of supporting passages of which a sentence is left. `supporting_words`: mean share of
    their runs of three words that are left.
    """

    answer: float | None
    supported_answer: float | None
    supporting: float | None
    supporting_words: float | None


@dataclass(frozen=True)
class Question:
    """One record; `supporting` are the texts of the passages that support the answer, none where unknown."""

    dataset: str
    identity: str
    query: str
    context: str
    answers: tuple[str, ...]
    supporting: tuple[str, ...]

    @property
    def half(self) -> str:
        return "test" if hashlib.sha256(self.identity.encode()).digest()[0] % 2 else "dev"

    @cached_property
    def _answer_words(self) -> list[list[str]]:
        """The answers as words; yes and no are judgements, found in no passage."""
        found = [_words(answer) for answer in self.answers]
        if any(words in (["yes"], ["no"]) for words in found[:1]):
            return []
        return [words for words in found if words]

    def evidence_in(self, view: str) -> Evidence:
        """What `view` has of the evidence in the context."""
        seen = _joined(_words(view))
        context = _joined(_words(self.context))
        answers = [_joined(words) for words in self._answer_words if _joined(words) in context]
        quotes = [
            quote
            for passage in self.supporting
            for words in self._answer_words
            for quote in _quotes(_words(passage), words)
        ]
        shares = [_share_left(_words(passage), seen) for passage in self.supporting]
        sentences = [any(_joined(s) in seen for s in _sentences(passage)) for passage in self.supporting]
        return Evidence(
            answer=float(any(answer in seen for answer in answers)) if answers else None,
            supported_answer=float(any(quote in seen for quote in quotes)) if quotes else None,
            supporting=sum(sentences) / len(sentences) if sentences else None,
            supporting_words=sum(shares) / len(shares) if shares else None,
        )


def questions(folder: Path) -> list[Question]:
    """All records below `folder`, the data folder, in the files' order."""
    found = []
    for name in _SETS:
        for line in (folder / "multihop" / f"{name}.jsonl").read_text("utf-8").splitlines():
            record = json.loads(line)
            passages = [passage.strip() for passage in _PASSAGE.split(record["context"])[1:]]
            supporting = tuple(passages[number - 1] for number in record["supporting_passages"] or ())
            found.append(
                Question(
                    name,
                    str(record["_id"]),
                    record["input"],
                    record["context"],
                    tuple(record["answers"]),
                    supporting,
                )
            )
    return found


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold())


def _joined(words: list[str]) -> str:
    return f" {' '.join(words)} "


def _sentences(passage: str) -> list[list[str]]:
    """The sentences below the title as words, those of a word or two aside."""
    body = passage.split("\n", 1)[-1]
    found = [_words(sentence) for sentence in re.split(r"(?<=[.!?])\s+", body)]
    return [words for words in found if len(words) > 2] or [_words(passage)]


def _quotes(passage: list[str], answer: list[str]) -> list[str]:
    """Every occurrence of the answer with the words before it, and with those after it."""
    quotes = []
    for start in range(len(passage) - len(answer) + 1):
        end = start + len(answer)
        if passage[start:end] == answer:
            around = (passage[max(0, start - _NUM_NEIGHBOURS) : end], passage[start : end + _NUM_NEIGHBOURS])
            longer = [words for words in around if len(words) > len(answer)]
            quotes += [_joined(words) for words in longer or around]
    return quotes


def _share_left(passage: list[str], seen: str) -> float:
    runs = [passage[start : start + _NUM_RUN] for start in range(max(1, len(passage) - _NUM_RUN + 1))]
    return sum(_joined(run) in seen for run in runs) / len(runs)
