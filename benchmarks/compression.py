"""How much of what a question needs is left after compression, for our compressors and for others.

`ASYMSPEC_DATA=… python benchmarks/compression.py --tokenizer MODEL_FOLDER [--rivals-python PYTHON]
[--encoder FOLDER]` writes benchmarks/results/compression.json and prints Markdown tables.

Questions: see `evidence`. The query is the question, the target a share of the context's tokens by the
model's tokenizer. Every rival is compared with query-aware extraction at equal tokens: extraction gets as its
target what the rival's view really took, question by question, and the difference is given with a paired
bootstrap interval (95%). API documentation: API-Bank's catalogue as JSON text, the query a dialogue's first
user text; an API survives if its name is left, and all its input parameters' names behind it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

from tokenizers import Tokenizer

from asymspec_agents.compress.auto import AutoCompressor
from asymspec_agents.compress.base import Compressor
from asymspec_agents.compress.extractive import Extractive
from asymspec_agents.compress.headtail import HeadTail
from asymspec_agents.tokens import TokenizerCounter
from benchmarks.evidence import Evidence, Question, questions
from evals.provenance import provenance

RATIOS = (0.5, 0.3, 0.15)
MEASURES = ("answer", "supported_answer", "supporting", "supporting_words")
OURS: dict[str, Compressor] = {
    "extractive": Extractive(),
    "auto": AutoCompressor(),
    "headtail": HeadTail(),
}
NUM_RESAMPLES = 10_000
ENCODER_BATCH = 32
OUTPUT = Path(__file__).parent / "results" / "compression.json"


def shortened(compressor: Compressor, text: str, query: str, target: int, counter: TokenizerCounter) -> str:
    return compressor.compress(text, query=query, target_tokens=target, counter=counter).text


def summary(evidence: Sequence[Evidence], shares: Sequence[float]) -> dict[str, Any]:
    """Means of each measure with the number of questions that have it; the mean share of tokens kept."""
    found: dict[str, Any] = {"kept": statistics.fmean(shares)}
    for measure in MEASURES:
        values = [value for one in evidence if (value := getattr(one, measure)) is not None]
        found[measure] = statistics.fmean(values) if values else None
        found[f"num_{measure}"] = len(values)
    return found


def interval(differences: Sequence[float], seed: int = 0) -> list[float] | None:
    """Mean and 95% bootstrap interval of paired differences."""
    if not differences:
        return None
    values = np.asarray(differences)
    picks = np.random.default_rng(seed).integers(len(values), size=(NUM_RESAMPLES, len(values)))
    low, high = np.quantile(values[picks].mean(axis=1), (0.025, 0.975))
    return [round(float(number), 4) for number in (values.mean(), low, high)]


def measure_ours(asked: list[Question], counter: TokenizerCounter) -> list[dict[str, Any]]:
    rows = []
    for name, compressor in OURS.items():
        for ratio in RATIOS:
            views = []
            for question in asked:
                tokens = counter.count(question.context)
                view = shortened(compressor, question.context, question.query, int(ratio * tokens), counter)
                views.append((question, view, counter.count(view) / tokens))
            rows.append({"compressor": name, "ratio": ratio, **_by_half(views)})
    return rows


def _by_half(views: Iterable[tuple[Question, str, float]]) -> dict[str, Any]:
    read = [(question, question.evidence_in(view), share) for question, view, share in views]
    halves = {
        half: summary(
            [evidence for question, evidence, _ in read if half in ("all", question.half)],
            [share for question, _, share in read if half in ("all", question.half)],
        )
        for half in ("all", "dev", "test")
    }
    datasets = {
        name: summary(
            [evidence for question, evidence, _ in read if question.dataset == name],
            [share for question, _, share in read if question.dataset == name],
        )
        for name in sorted({question.dataset for question, _, _ in read})
    }
    return {**halves, "datasets": datasets}


def measure_rivals(
    asked: list[Question], views: list[dict[str, Any]], counter: TokenizerCounter
) -> list[dict[str, Any]]:
    by_id = {question.identity: question for question in asked}
    groups: dict[tuple[str, float | None], list[dict[str, Any]]] = {}
    for view in views:
        groups.setdefault((view["rival"], view["ratio"]), []).append(view)
    rows = []
    for (rival, ratio), group in groups.items():
        theirs, ours, pairs = [], [], []
        for view in group:
            question = by_id[view["text_id"]]
            size, tokens = counter.count(view["view"]), counter.count(question.context)
            own = shortened(Extractive(), question.context, question.query, size, counter)
            theirs.append((question, view["view"], size / tokens))
            ours.append((question, own, counter.count(own) / tokens))
            pairs.append((question.evidence_in(own), question.evidence_in(view["view"])))
        leads = {
            measure: interval(
                [
                    getattr(own, measure) - getattr(other, measure)
                    for own, other in pairs
                    if getattr(own, measure) is not None
                ]
            )
            for measure in MEASURES
        }
        rows.append(
            {
                "rival": rival,
                "version": group[0]["version"],
                "ratio": ratio,
                "theirs": _by_half(theirs),
                "ours": _by_half(ours),
                "lead": leads,
            }
        )
    return rows


def rival_views(
    asked: list[Question], counter: TokenizerCounter, tokenizer: Path, python: str
) -> list[dict[str, Any]]:
    jobs = "\n".join(
        json.dumps(
            {
                "text_id": question.identity,
                "text": question.context,
                "query": question.query,
                "ratio": ratio,
                "target_tokens": int(ratio * counter.count(question.context)),
            }
        )
        for ratio in RATIOS
        for question in asked
    )
    script = Path(__file__).with_name("compression_rivals.py")
    done = subprocess.run(
        [python, str(script), str(tokenizer)],
        input=jobs,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env={**os.environ, "HF_HUB_OFFLINE": "1"},
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def encoder_views(asked: list[Question], counter: TokenizerCounter, folder: Path) -> list[dict[str, Any]]:
    """Sentences nearest to the question by a sentence encoder (mean pooling), as many as fit, in order."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()

    def encoded(texts: list[str]) -> Any:
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))  # little padding in a batch
        vectors = [torch.empty(0)] * len(texts)
        for start in range(0, len(texts), ENCODER_BATCH):
            places = order[start : start + ENCODER_BATCH]
            batch = tokenizer(
                [texts[at] for at in places],
                padding=True,
                truncation=True,
                max_length=128,
                return_tensors="pt",
            )
            with torch.inference_mode():
                states = model(**batch).last_hidden_state
            mask = batch["attention_mask"][..., None]
            for at, vector in zip(places, (states * mask).sum(1) / mask.sum(1), strict=True):
                vectors[at] = vector
        return torch.nn.functional.normalize(torch.stack(vectors), dim=1)

    views = []
    for question in asked:
        sentences = [part for part in re.split(r"(?<=[.!?])\s+|\n+", question.context) if part.strip()]
        similar = (encoded(sentences) @ encoded([question.query])[0]).tolist()
        sizes = [counter.count(f"{sentence}\n") for sentence in sentences]
        for ratio in RATIOS:
            room, kept = int(ratio * counter.count(question.context)), []
            for number in sorted(range(len(sentences)), key=lambda at: -similar[at]):
                if sizes[number] <= room:
                    room -= sizes[number]
                    kept.append(number)
            view = "\n".join(sentences[number] for number in sorted(kept))
            views.append(
                {
                    "rival": "sentence encoder",
                    "version": folder.name,
                    "text_id": question.identity,
                    "ratio": ratio,
                    "view": view,
                }
            )
    return views


def measure_apis(folder: Path, counter: TokenizerCounter) -> list[dict[str, Any]]:
    apis = json.loads((folder / "api_descriptions.json").read_text("utf-8"))
    parameters = {api["name"]: list(api["input_parameters"] or ()) for api in apis}
    needs = []
    for line in (folder / "dialogues.jsonl").read_text("utf-8").splitlines():
        turns = json.loads(line)["turns"]
        needed = {turn["api_name"] for turn in turns if turn["role"] == "API"} & set(parameters)
        asked = next((turn["text"] for turn in turns if turn["role"] == "User"), "")
        if needed and asked:
            needs.append((asked, sorted(needed)))
    text = json.dumps(apis, indent=1)
    tokens = counter.count(text)
    rows = []
    for name, compressor in OURS.items():
        for ratio in RATIOS:
            named, whole, sizes = [], [], []
            for asked, needed in needs:
                view = shortened(compressor, text, asked, int(ratio * tokens), counter)
                sizes.append(counter.count(view) / tokens)
                for api in needed:
                    places = [match.end() for match in re.finditer(rf"\b{re.escape(api)}\b", view)]
                    named.append(float(bool(places)))
                    whole.append(float(any(_all_follow(view[at:], parameters[api]) for at in places)))
            rows.append(
                {
                    "compressor": name,
                    "ratio": ratio,
                    "kept": statistics.fmean(sizes),
                    "num_apis": len(named),
                    "named": statistics.fmean(named),
                    "with_parameters": statistics.fmean(whole),
                }
            )
    return rows


def _all_follow(behind: str, names: list[str]) -> bool:
    """Whether the names stand as words within the 1,500 characters behind an API's name."""
    return all(re.search(rf"\b{re.escape(name)}\b", behind[:1_500]) for name in names)


def print_tables(results: dict[str, Any]) -> None:
    print("| compressor | target | kept | answers | supported answers | passages | test half: supported |")
    print("|---|---|---|---|---|---|---|")
    for row in results["ours"]:
        every, test = row["all"], row["test"]
        print(
            f"| {row['compressor']} | {row['ratio']} | {every['kept']:.2f} | {every['answer']:.2f} | "
            f"{every['supported_answer']:.2f} | {every['supporting']:.2f} | {test['supported_answer']:.2f} |"
        )
    print("\n| rival | target | kept | its supported answers | ours at its tokens | lead (95%) |")
    print("|---|---|---|---|---|---|")
    for row in results["rivals"]:
        theirs, ours = row["theirs"]["all"], row["ours"]["all"]
        mean, low, high = row["lead"]["supported_answer"]
        print(
            f"| {row['rival']} | {row['ratio'] or 'its own'} | {theirs['kept']:.2f} | "
            f"{theirs['supported_answer']:.2f} | {ours['supported_answer']:.2f} | "
            f"{mean:+.2f} ({low:+.2f} to {high:+.2f}) |"
        )
    print("\n| API docs | target | kept | needed APIs named | with all parameters |")
    print("|---|---|---|---|---|")
    for row in results["apis"]:
        print(
            f"| {row['compressor']} | {row['ratio']} | {row['kept']:.2f} | {row['named']:.2f} | "
            f"{row['with_parameters']:.2f} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tokenizer", type=Path, required=True, help="a model's folder with tokenizer.json")
    parser.add_argument("--rivals-python", help="a Python with the rivals' packages")
    parser.add_argument("--encoder", type=Path, help="a sentence encoder's folder")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    data = Path(os.environ["ASYMSPEC_DATA"])
    tokenizer = options.tokenizer / "tokenizer.json"
    counter = TokenizerCounter(Tokenizer.from_file(str(tokenizer)))
    asked = questions(data)
    views = []
    if options.rivals_python:
        views += rival_views(asked, counter, tokenizer, options.rivals_python)
    if options.encoder:
        views += encoder_views(asked, counter, options.encoder)
    results = {
        "provenance": provenance(
            "bm25s",
            "tokenizers",
            num_questions=len(asked),
            tokenizer=options.tokenizer.name,
            extractive=Extractive().configuration,
        ),
        "ours": measure_ours(asked, counter),
        "rivals": measure_rivals(asked, views, counter),
        "apis": measure_apis(data / "api_bank", counter),
    }
    options.output.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print_tables(results)


if __name__ == "__main__":
    main()
