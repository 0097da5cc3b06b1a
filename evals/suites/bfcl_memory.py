"""BFCL's memory questions, answered from the earlier conversations themselves.

This is not the leaderboard's memory number. There an agent hears the conversations one by one, keeps what
matters in a memory store through tools, and answers later from the store alone. Here the conversations stand
in the context: full in the full view, shortened in the compressed one. The questions, the allowed answers and
the checker are the official ones.

The release has the user's side of the conversations only. What they say in one conversation is one message
here (so that a compressed view chooses from the whole conversation), followed by one fixed acknowledgement,
as many chat templates want the roles to take turns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from asymspec_agents.errors import ConfigurationError
from asymspec_agents.messages import parse_messages

from ..records import Output, Score
from ..sample import LongPart, Sample
from ..scorers.bfcl_memory import mentions
from ..suite import Judge, Suite
from .bfcl_release import BfclRelease

__all__ = ["BfclMemoryContext"]

_SYSTEM = (
    "You are the user's personal assistant and remember all earlier conversations with them. When they ask a "
    "question, answer from what they told you. Reply with the answer alone, as a few words without any "
    "explanation. If they never told you, reply: I do not know."
)
_HEARD = "I have noted that."


class BfclMemoryContext(Suite):
    """Short questions about long earlier conversations."""

    name = "bfcl_memory_context"
    title = "BFCL memory questions, conversations in the context"
    metric = "accuracy"
    source = (
        "Berkeley Function-Calling Leaderboard v4, 155 memory questions, package bfcl-eval 2026.3.23 "
        "(Apache-2.0): --data takes its wheel, its folder or a checkout"
    )

    def load(self, path: Path | None = None) -> Sequence[Sample]:
        """The questions of the release at `path`, or of the installed package."""
        release = BfclRelease(path)
        heard: dict[str, list[str]] = {}
        samples: list[Sample] = []
        for record in release.memory_questions():
            place = f"{self.name}: question {record['id']!r}"
            try:
                scenario = str(record["scenario"])
                if scenario not in heard:
                    heard[scenario] = _user_texts(release.memory_conversations(scenario))
                samples.append(self._sample(record, scenario, heard[scenario]))
            except (AttributeError, KeyError, TypeError) as error:
                reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
                raise ConfigurationError(f"{place} is no record of BFCL's memory: {reason}") from error
            if not samples[-1].query or not samples[-1].gold:
                raise ConfigurationError(f"{place} has no question, or no allowed answer")
        return samples

    def _sample(self, record: Mapping[str, Any], scenario: str, heard: Sequence[str]) -> Sample:
        question = "\n".join(_texts(record["question"]))
        messages: list[dict[str, Any]] = [{"role": "system", "content": _SYSTEM}]
        for text in heard:
            messages += ({"role": "user", "content": text}, {"role": "assistant", "content": _HEARD})
        return Sample(
            suite=self.name,
            id=record["id"],
            messages=parse_messages([*messages, {"role": "user", "content": question}]),
            query=question,
            long_parts=tuple(LongPart(place) for place in range(1, len(messages), 2)),
            gold=[str(one) for one in record["ground_truth"]],
            max_tokens=64,
            groups={"scenario": scenario},
        )

    def score(self, sample: Sample, output: Output, judge: Judge | None = None) -> Score:
        """1 where the answer mentions an allowed one, by the official checker's rule."""
        return Score(values={"accuracy": float(mentions(output.answer, sample.gold))})


def _user_texts(conversations: Sequence[Mapping[str, Any]]) -> list[str]:
    """What the user says in each conversation, its turns as paragraphs."""
    texts = ("\n\n".join(_texts(conversation["question"])) for conversation in conversations)
    return [text for text in texts if text]


def _texts(turns: Sequence[Sequence[Mapping[str, Any]]]) -> list[str]:
    return [
        text for turn in turns for message in parse_messages(turn) for text in message.texts() if text.strip()
    ]
