"""What LLMLingua-2 keeps of what questions need, by the share of tokens kept.

With a model hub in reach, one command, which fetches the checkpoint (0.7 GB) and the questions (LongBench's
HotpotQA, MuSiQue and 2WikiMultihopQA):

    python benchmarks/llmlingua_quality.py microsoft/llmlingua-2-bert-base-multilingual-cased-meetingbank

It reads some ten million tokens: work for a GPU, or for `--limit 10`. `--data` takes files of one's own,
JSON lines in the same format: `input` (the question), `context` ("Passage N:" before each passage), `answers`
and, where known, `supporting_passages` (their numbers).

Each context is compressed to each rate, within the same number of tokens of one counter, by LLMLingua-2 with
every word left to the classifier, by the same with protected spans (the default), by extraction that reads
the question, and by head and tail:

- by itself: the share of the renditions that the compressor made, and not what stands in for it where
  protected spans alone do not fit; its other figures say little of LLMLingua-2 where this is low;
- answers: of the records of which an answer stands in the context, the share of which one stands in the
  rendition (letters and digits only, without case; "yes" and "no" aside, which stand in any text), and how
  much more that is than with head and tail, paired by record;
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
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

from asymspec_agents.compress import Compressor, HeadTail
from asymspec_agents.compress.extractive import extraction
from asymspec_agents.compress.llmlingua import LLMLingua2, nothing_protected
from asymspec_agents.compress.ranking import default_ranker
from asymspec_agents.compress.terms import terms
from asymspec_agents.tokens import EstimateCounter, TokenCounter, TokenizerCounter
from evals.provenance import provenance

NUM_RESAMPLES = 1_000
LONGBENCH = ("hotpotqa", "musique", "2wikimqa")
BASELINE = "headtail"
UNTOLD = frozenset({"yes", "no"})

Lines = Path | zipfile.Path


def longbench() -> list[Lines]:
    """The multi-hop questions of LongBench, from the hub's cache or the hub."""
    from huggingface_hub import hf_hub_download

    archive = hf_hub_download("THUDM/LongBench", "data.zip", repo_type="dataset")
    return [zipfile.Path(archive, f"data/{name}.jsonl") for name in LONGBENCH]


def records(files: Sequence[Lines], limit: int | None) -> list[dict[str, Any]]:
    """The first `limit` records of each file."""
    found = []
    for file in files:
        with file.open("r", encoding="utf-8") as lines:
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
    return any(f" {answer} " in folded for answer in wanted if answer and answer not in UNTOLD)


def share_kept(rendition: str, chosen: Sequence[str]) -> float | None:
    """The share of the passages' words that the rendition has, each as often; None for no words."""
    wanted = Counter(word for passage in chosen for word in terms(passage))
    if not wanted:
        return None
    return (wanted & Counter(terms(rendition))).total() / wanted.total()


def measure_record(
    record: dict[str, Any], name: str, compressor: Compressor, rate: float, counter: TokenCounter
) -> dict[str, float | None]:
    """One rendition's figures; None where the record does not tell."""
    context, answers = record["context"], record["answers"]
    num_tokens = counter.count(context)
    made = compressor.compress(
        context, query=record["input"], target_tokens=int(num_tokens * rate), counter=counter
    )
    found = passages(context)
    numbers = record.get("supporting_passages") or []
    supporting = [found[number - 1] for number in numbers if 0 < number <= len(found)]
    others = [passage for number, passage in enumerate(found, 1) if number not in numbers]
    return {
        "kept_tokens": counter.count(made.text) / num_tokens if num_tokens else None,
        "by_itself": float(name.startswith(made.compressor)),
        "answer_recall": float(has_answer(made.text, answers)) if has_answer(context, answers) else None,
        "supporting_words": share_kept(made.text, supporting) if supporting else None,
        "other_words": share_kept(made.text, others) if supporting else None,
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


def shown(one: dict[str, Any]) -> str:
    """A summary for a table."""
    if one["mean"] is None:
        return "-"
    low, high = one["interval"]
    return f"{one['mean']:.2f} {low:.2f}–{high:.2f}"


Figures = dict[str, dict[str, list[dict[str, float | None]]]]


def measure(
    data: Sequence[dict[str, Any]],
    compressors: dict[str, Compressor],
    rates: Sequence[float],
    counter: TokenCounter,
) -> Figures:
    """Every record's figures by compressor and rate; how far it is goes to standard error."""
    figures: Figures = {name: {f"{rate:g}": [] for rate in rates} for name in compressors}
    started_s = time.monotonic()
    for number, record in enumerate(data, start=1):
        for name, compressor in compressors.items():
            for rate in rates:  # all rates of a text in a row: the classifier reads it once
                made = measure_record(record, name, compressor, rate, counter)
                figures[name][f"{rate:g}"].append(made)
        elapsed_s = time.monotonic() - started_s
        print(f"{number} of {len(data)} records, {elapsed_s:,.0f} s", file=sys.stderr)
    return figures


def recalls(made: Sequence[dict[str, float | None]]) -> list[float | None]:
    """Whether each record's answer was kept."""
    return [one["answer_recall"] for one in made]


def summaries(figures: Figures) -> dict[str, dict[str, dict[str, Any]]]:
    """Each figure's summary, and the answers' advantage over head and tail, paired by record."""
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for name, by_rate in figures.items():
        results[name] = {}
        for rate, made in by_rate.items():
            found = {key: summary([one[key] for one in made]) for key in (made or [{}])[0]}
            pairs = zip(recalls(made), recalls(figures[BASELINE][rate]), strict=True)
            advantages = [None if one is None or base is None else one - base for one, base in pairs]
            found["answers_over_headtail"] = summary(advantages)
            results[name][rate] = found
    return results


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("checkpoint", help="a hub name or a folder")
    parser.add_argument(
        "--data", type=Path, nargs="+", help="JSON lines in LongBench's format (default: the hub's)"
    )
    parser.add_argument("--rates", type=float, nargs="+", default=[0.5, 0.3, 0.15])
    parser.add_argument("--limit", type=int, help="records of each file (default: all)")
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
    files: list[Lines] = options.data or longbench()
    data = records(files, options.limit)

    def load(**chosen: Any) -> LLMLingua2:
        return LLMLingua2.load(options.checkpoint, device=options.device, timeout_s=None, **chosen)

    compressors: dict[str, Compressor] = {
        "llmlingua2": load(protected=nothing_protected),
        "llmlingua2 protected": load(),
        "extractive": extraction(default_ranker(), HeadTail()),
        BASELINE: HeadTail(),
    }
    results = summaries(measure(data, compressors, options.rates, counter))
    columns = {
        "kept_tokens": "kept",
        "by_itself": "by itself",
        "answer_recall": "answers",
        "answers_over_headtail": "over headtail (95%)",
        "supporting_words": "supporting",
        "other_words": "others",
    }
    print(f"{'':<22}{'rate':>6}" + "".join(f"{title:>{len(title) + 8}}" for title in columns.values()))
    for name, by_rate in results.items():
        for rate, found in by_rate.items():
            cells = "".join(f"{shown(found[key]):>{len(title) + 8}}" for key, title in columns.items())
            print(f"{name:<22}{rate:>6}{cells}")
    made_with = provenance(
        "torch",
        "transformers",
        num_records=len(data),
        data=[file.name for file in files],
        counter=counter.name,
        configurations={name: compressor.configuration for name, compressor in compressors.items()},
    )
    line = json.dumps({"provenance": made_with, "results": results})
    print(line)
    if options.output:
        options.output.write_text(line + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
