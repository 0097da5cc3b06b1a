"""Questions over passages in LongBench's record format: its prompt, its scorer, its truncation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from asymspec_agents.backends import PromptCounter
from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import Message
from asymspec_agents.tokens import EstimateCounter

from ..middle import without_middle
from ..reading import Row
from ..records import Output, Record, Score
from ..sample import LongPart, Sample
from ..scorers.qa_f1 import best_f1
from ..suite import Asker, Judge, Result, Suite

__all__ = ["LENGTHS", "PassageSuite", "prompt_parts", "truncated"]

# The prompt of hotpotqa, 2wikimqa and musique: THUDM/LongBench, config/dataset2prompt.json (MIT licence,
# Copyright (c) 2023 THU-KEG & Zhipu AI).
_INSTRUCTION = (
    "Answer the question based on the given passages. "
    "Only give me the answer and do not output any other words."
)
_BEFORE = _INSTRUCTION + "\n\nThe following are given passages."
_AFTER = "\n" + _INSTRUCTION + "\n\nQuestion: {}\nAnswer:"

MAX_ANSWER_TOKENS = 32
"""THUDM/LongBench, config/dataset2maxlen.json."""

LENGTHS = ("0-4k", "4-8k", "8k+")
"""LongBench-E's buckets by the passages' words: below 4,000, below 8,000, the rest."""

_MIN_PROMPT_TOKENS = 256


def prompt_parts(question: str, passages: str) -> tuple[str, str, str]:
    """The official prompt in three parts, of which the second is the passages.

    Chat templates take text parts joined by line ends, in this package's engine as in vLLM; so joined, the
    parts are the official prompt byte for byte.
    """
    return _BEFORE, passages, _AFTER.format(question)


class PassageSuite(Suite):
    """A set in LongBench's format. F1 in [0, 1] a sample; the figure is its mean times 100, to two places.

    `max_prompt_tokens` (text, as on the command line) is the official middle truncation: of a longer prompt
    half as many of the first and of the last tokens are kept. It is for models whose limit demands it, goes
    for the full view of every arm, and is part of the suite's name in records; what was cut is in the
    output's trajectory. Tokens are those of the arm's model where its backend can count them, else estimated;
    the chat template's own come on top.
    """

    metric = "f1"
    is_binary = False

    def __init__(self, max_prompt_tokens: str | None = None) -> None:
        self.max_prompt_tokens = None if max_prompt_tokens is None else _limit(max_prompt_tokens)

    def sample(
        self,
        row: Row,
        number: int,
        *,
        prefix: str = "",
        groups: Mapping[str, str] | None = None,
        details: Mapping[str, Any] | None = None,
    ) -> Sample:
        """The sample of a record; `number`, from 1, stands in where the record has no id.

        Raises ConfigurationError for a record without question, passages or any answer: none could be right.
        """
        question, passages = row.text("input"), row.text("context")
        num_words = row.get("length")
        if not isinstance(num_words, int | float) or isinstance(num_words, bool):
            num_words = len(passages.split())
        identity = row.get("_id")
        content = [{"type": "text", "text": text} for text in prompt_parts(question, passages)]
        return Sample(
            suite=self.name,
            id=prefix + str(number if identity is None else identity),
            messages=({"role": "user", "content": content},),  # type: ignore[arg-type]
            query=question,
            long_parts=(LongPart(0, 1),),
            gold=list(row.texts("answers")),
            max_tokens=MAX_ANSWER_TOKENS,
            groups={**(groups or {}), "length": _length(num_words)},
            details=details or {},
        )

    def answer(self, sample: Sample, asker: Asker) -> Output:
        if self.max_prompt_tokens is None:
            return super().answer(sample, asker)
        messages, cut = truncated(sample.messages, self.max_prompt_tokens, asker.backend().prompt_counter)
        response = asker.ask(
            messages,
            query=sample.query,
            long_parts=sample.long_parts,
            max_tokens=sample.max_tokens,
        )
        return asker.output(response.content, trajectory=(cut,) if cut else ())

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        return Score(values={"f1": best_f1(output.answer, sample.gold)})

    def figure(self, records: Sequence[Record]) -> Result:
        return Result(self._mean(records), self._parts(records, "length", LENGTHS))

    def _parts(self, records: Sequence[Record], group: str, order: Iterable[str]) -> dict[str, float]:
        """The figure of each value of a group, in this order, without those that no record has."""
        found: dict[str, list[Record]] = {name: [] for name in order}
        for record in records:
            found.setdefault(record.groups.get(group, "other"), []).append(record)
        return {name: self._mean(those) for name, those in found.items() if those}

    def _mean(self, records: Sequence[Record]) -> float:
        values = [self.value(record) for record in records]
        return round(100 * sum(values) / len(values), 2) if values else 0.0


def truncated(
    messages: Sequence[Message], limit: int, counter: PromptCounter | None
) -> tuple[tuple[Message, ...], dict[str, Any]]:
    """A prompt of `prompt_parts` within `limit` tokens, its passages cut in the middle, and what was cut.

    One that is short enough comes back as it is, with nothing cut. Raises ConfigurationError where the
    instruction and the question alone are too long.
    """
    count = _text_counter(counter)
    before, passages, after = messages[0].texts()
    num_tokens = count("\n".join((before, passages, after)))
    if num_tokens <= limit:
        return tuple(messages), {}
    head, tail = limit // 2 - count(before + "\n"), limit // 2 - count("\n" + after)
    kept, kept_tokens = "", limit + 1
    while kept_tokens > limit:
        if min(head, tail) < 0:
            raise ConfigurationError(f"max_prompt_tokens={limit} leaves no room beside the question")
        kept = without_middle(passages, head, tail, count)
        kept_tokens = count("\n".join((before, kept, after)))
        tail -= max(1, kept_tokens - limit)  # the parts alone may have fewer tokens than put together
    parts = [{"type": "text", "text": text} for text in (before, kept, after)]
    cut = {"truncated": "middle", "prompt_tokens": num_tokens, "kept_tokens": kept_tokens}
    return (Message.model_validate({"role": "user", "content": parts}),), cut


def _text_counter(counter: PromptCounter | None) -> Callable[[str], int]:
    """Counts a text's tokens: a prompt's, less those of the chat template around nothing."""
    if counter is None:
        return EstimateCounter().count

    def count(text: str) -> int:
        return counter((Message(role="user", content=text),), ()) - around

    around = counter((Message(role="user", content=""),), ())
    return count


def _limit(text: str) -> int:
    try:
        limit = int(text)
    except ValueError:
        limit = 0
    if limit < _MIN_PROMPT_TOKENS:
        raise ConfigurationError(
            f"max_prompt_tokens={text!r} must be a number of at least {_MIN_PROMPT_TOKENS}"
        )
    return limit


def _length(num_words: float) -> str:
    return LENGTHS[0] if num_words < 4_000 else LENGTHS[1] if num_words < 8_000 else LENGTHS[2]
