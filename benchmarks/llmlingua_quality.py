"""What LLMLingua-2 keeps of what questions need, by the share of tokens kept.

For a machine with a model hub, or with a checkpoint in a folder:

    python benchmarks/llmlingua_quality.py microsoft/llmlingua-2-xlm-roberta-large-meetingbank \\
        --data hotpotqa.jsonl musique.jsonl --rates 0.5 0.3 0.15 --output quality.json

Data are JSON lines in LongBench's format: `input` (the question), `context` ("Passage N:" before each
passage), `answers`, and, where known, `supporting_passages` (their numbers). Each context is compressed to
each rate by the checkpoint and by head and tail, both within the same number of tokens of one counter, and:

- answer recall: of the records of which an answer stands in the context, the share of which one stands in
  the rendition (letters and digits only, without case);
- supporting words: the share of the supporting passages' words that the rendition has, and the same for the
  other passages. A classifier that does not read the question cannot prefer the former much.

Each figure comes with its number of records and a 95% bootstrap interval over records. Nothing here is tuned
on the data. Random weights, such as the test's, say nothing of a trained checkpoint.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

from asymspec_agents.compress import Compressor, HeadTail
from asymspec_agents.compress.llmlingua import LLMLingua2
from asymspec_agents.compress.terms import terms
from asymspec_agents.tokens import EstimateCounter, TokenCounter, TokenizerCounter
from benchmarks.provenance import provenance

NUM_RESAMPLES = 1_000


def records(paths: Sequence[Path], limit: int | None) -> list[dict[str, Any]]:
    """The first `limit` records of each file."""
    found = []
    for path in paths:
        with path.open(encoding="utf-8") as lines:
            found += [json.loads(line) for line, _ in zip(lines, range(limit or sys.maxsize), strict=False)]
    return found


def passages(context: str) -> list[str]:
    """The passages of a context in order, without their numbers."""
    parts = f"\n{context}".split("\nPassage ")[1:]
    return [part.partition("\n")[2] for part in parts]


def has_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether an answer's terms stand in the text one after the other."""
    folded = f" {' '.join(terms(text))} "
    wanted = (" ".join(terms(answer)) for answer in answers)
    return any(f" {answer} " in folded for answer in wanted if answer)


def share_kept(rendition: str, chosen: Sequence[str]) -> float | None:
    """The share of the passages' words that the rendition has, each as often; None for no words."""
    wanted = Counter(word for passage in chosen for word in terms(passage))
    if not wanted:
        return None
    return (wanted & Counter(terms(rendition))).total() / wanted.total()


def measure_record(
    record: dict[str, Any], compressor: Compressor, rate: float, counter: TokenCounter
) -> dict[str, float | None]:
    """One rendition's figures; None where the record does not tell."""
    context, answers = record["context"], record["answers"]
    num_tokens = counter.count(context)
    rendition = compressor.compress(
        context, query=record["input"], target_tokens=int(num_tokens * rate), counter=counter
    ).text
    found = passages(context)
    numbers = record.get("supporting_passages") or []
    supporting = [found[number - 1] for number in numbers if 0 < number <= len(found)]
    others = [passage for number, passage in enumerate(found, 1) if number not in numbers]
    return {
        "kept_tokens": counter.count(rendition) / num_tokens if num_tokens else None,
        "answer_recall": float(has_answer(rendition, answers)) if has_answer(context, answers) else None,
        "supporting_words": share_kept(rendition, supporting) if supporting else None,
        "other_words": share_kept(rendition, others) if supporting else None,
    }


def summary(values: Sequence[float | None]) -> dict[str, Any]:
    """Mean, 95% bootstrap interval and number of the values there are."""
    known = [value for value in values if value is not None]
    if not known:
        return {"mean": None, "interval": None, "n": 0}
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(known, k=len(known))) for _ in range(NUM_RESAMPLES))
    interval = [means[int(0.025 * NUM_RESAMPLES)], means[int(0.975 * NUM_RESAMPLES) - 1]]
    return {"mean": statistics.fmean(known), "interval": interval, "n": len(known)}


def measure(
    data: Sequence[dict[str, Any]], compressor: Compressor, rates: Sequence[float], counter: TokenCounter
) -> dict[str, Any]:
    """Every figure's summary for each rate."""
    results = {}
    for rate in rates:
        made = [measure_record(record, compressor, rate, counter) for record in data]
        results[f"{rate:g}"] = {name: summary([one[name] for one in made]) for name in (made or [{}])[0]}
    return results


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkpoint", help="a hub name or a folder")
    parser.add_argument(
        "--data", type=Path, nargs="+", required=True, help="JSON lines in LongBench's format"
    )
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5, 0.3, 0.15])
    parser.add_argument("--limit", type=int, help="records of each file")
    parser.add_argument("--device")
    parser.add_argument(
        "--tokenizer", help="whose tokens count (default: our estimate): a hub name or folder"
    )
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    counter: TokenCounter = EstimateCounter()
    if options.tokenizer:
        from transformers import AutoTokenizer

        counter = TokenizerCounter(AutoTokenizer.from_pretrained(options.tokenizer, trust_remote_code=False))
    data = records(options.data, options.limit)
    compressors: dict[str, Compressor] = {
        "llmlingua2": LLMLingua2.load(options.checkpoint, device=options.device, timeout_s=None),
        "headtail": HeadTail(),
    }
    results = {name: measure(data, one, options.rates, counter) for name, one in compressors.items()}
    print(f"{'':<12}{'rate':>6}{'kept':>8}{'answers':>9}{'supporting':>12}{'others':>8}")
    for name, by_rate in results.items():
        for rate, figures in by_rate.items():
            means = [figures[key]["mean"] for key in figures]
            shown = ["-" if mean is None else f"{mean:.3f}" for mean in means]
            widths = (8, 9, 12, 8)
            cells = "".join(f"{cell:>{width}}" for cell, width in zip(shown, widths, strict=False))
            print(f"{name:<12}{rate:>6}{cells}")
    made_with = provenance(
        "torch",
        "transformers",
        num_records=len(data),
        data=[path.name for path in options.data],
        counter=counter.name,
        configurations={name: compressor.configuration for name, compressor in compressors.items()},
    )
    line = json.dumps({"provenance": made_with, "results": results})
    print(line)
    if options.output:
        options.output.write_text(line + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
