"""Which short form should an old turn take: head and tail, or an extract by relevance, at the same tokens?

Two settings, each text shortened to `--tokens` both ways (the tokens really kept are reported):
- asked: results of searches for a question that is known when they are shortened, as an agent's task is.
  ASYMSPEC_DATA/multihop, `--group` passages a result; recall: the answer still stands where it stood.
- unasked: what a user said in earlier conversations, asked about later. ASYMSPEC_DATA/bfcl memory
  conversations, several messages a text; the query is the conversation's first message; recall: of the later
  questions' answers.

The intervals are a paired bootstrap's over records, 95%.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from asymspec_agents.compress import AutoCompressor
from asymspec_agents.compress.base import Compressor
from asymspec_agents.compress.headtail import HeadTail
from asymspec_agents.tokens import EstimateCounter

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from evals.provenance import provenance

COUNTER = EstimateCounter()
NUM_RESAMPLES = 2_000


@dataclass(frozen=True)
class Case:
    """A text that holds an answer, with what is known when it is shortened."""

    text: str
    query: str
    answers: tuple[str, ...]

    def is_kept(self, shown: str) -> bool:
        return any(answer.lower() in shown.lower() for answer in self.answers)


def asked(data: Path, group: int) -> Iterator[Case]:
    """Search results that hold the answer to the question they were found for."""
    for file in sorted((data / "multihop").glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            record = json.loads(line)
            passages = record["context"].split("\nPassage ")
            answers = tuple(answer for answer in record["answers"] if len(answer) > 3)
            for start in range(0, len(passages), group):
                case = Case("\nPassage ".join(passages[start : start + group]), record["input"], answers)
                if case.is_kept(case.text):
                    yield case


def unasked(data: Path, group: int) -> Iterator[Case]:
    """What users told, with the answers to questions asked long after."""
    folder = data / "bfcl"
    answers: dict[str, list[tuple[str, ...]]] = {}
    for line in (folder / "memory_answers.jsonl").read_text("utf-8").splitlines():
        record = json.loads(line)
        answers.setdefault(record["id"].split("-")[1], []).append(tuple(record["ground_truth"]))
    for file in sorted((folder / "memory_conversations").glob("*.jsonl")):
        wanted = answers.get(file.stem.removeprefix("memory_"), [])
        for line in file.read_text("utf-8").splitlines():
            said = [message["content"] for turn in json.loads(line)["question"] for message in turn]
            for start in range(0, len(said), group):
                text = "\n\n".join(said[start : start + group])
                for found in wanted:
                    case = Case(text, said[0], tuple(answer for answer in found if len(answer) > 2))
                    if case.is_kept(case.text):
                        yield case


def measure(cases: list[Case], max_tokens: int) -> dict[str, object]:
    """Recall and tokens of both forms, and the difference with its interval."""
    forms: dict[str, Compressor] = {"head and tail": HeadTail(), "extract": AutoCompressor()}
    kept: dict[str, list[bool]] = {name: [] for name in forms}
    tokens = dict.fromkeys(forms, 0)
    for case in cases:
        for name, compressor in forms.items():
            shown = compressor.compress(
                case.text, query=case.query, target_tokens=max_tokens, counter=COUNTER
            ).text
            kept[name].append(case.is_kept(shown))
            tokens[name] += COUNTER.count(shown)
    differences = [
        extract - plain for extract, plain in zip(kept["extract"], kept["head and tail"], strict=True)
    ]
    draw = random.Random(0)
    means = sorted(
        sum(draw.choices(differences, k=len(differences))) / len(differences) for _ in range(NUM_RESAMPLES)
    )
    return {
        "n": len(cases),
        "recall": {name: sum(values) / len(values) for name, values in kept.items()},
        "mean_tokens": {name: total / len(cases) for name, total in tokens.items()},
        "mean_tokens_before": sum(COUNTER.count(case.text) for case in cases) / len(cases),
        "difference": sum(differences) / len(differences),
        "interval": [means[int(0.025 * NUM_RESAMPLES)], means[int(0.975 * NUM_RESAMPLES)]],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokens", type=int, default=120)
    parser.add_argument("--group", type=int, default=4, help="passages, or messages, a text")
    parser.add_argument("--limit", type=int, default=400, help="cases of each setting")
    args = parser.parse_args()
    data = Path(os.environ["ASYMSPEC_DATA"])
    results = {}
    for name, cases in (("asked", asked(data, args.group)), ("unasked", unasked(data, args.group))):
        found = [case for case in cases if COUNTER.count(case.text) > 1.5 * args.tokens]
        chosen = random.Random(0).sample(found, min(args.limit, len(found)))
        results[name] = measure(chosen, args.tokens)
        print(name, json.dumps(results[name]))
    made_with = provenance("bm25s", tokens=args.tokens, group=args.group)
    print(json.dumps({"provenance": made_with, "results": results}))


if __name__ == "__main__":
    main()
