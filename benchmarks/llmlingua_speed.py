"""What LLMLingua-2 costs here against the llmlingua package, on one checkpoint in one run.

`python benchmarks/llmlingua_speed.py --output benchmarks/results/llmlingua_speed.json`. The checkpoint is
made on the spot: random weights in the size of `bert-base-multilingual-cased` (or as the options say), as
time does not depend on what the weights are. The package runs as it comes but for OpenAI's tokenizer, which
it would fetch: our estimate weighs words in both. Each text is new to both, the order alternates, and the
process's CPU seconds are compared: on a busy machine wall time says little.

Then the longest pause of an event loop while `ContextRouter.aroute` takes a new tool result of 2 MB, beside a
loop with nothing to do, and the most CPU time that the process used between two turns of the loop (an upper
limit of what it did to the loop itself; the rest of a pause is other processes'):

- as it comes: protected spans alone do not fit the router's 2,000 tokens, so the text is extracted from;
- every word left to the classifier: its time runs out, which gives head and tail;
- the same with a very small classifier, which reads the whole text.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

import torch
from llmlingua import prompt_compressor
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, trainers
from transformers import BertConfig, BertForTokenClassification, BertTokenizer

from asymspec_agents.compress import AutoCompressor
from asymspec_agents.compress.llmlingua import LLMLingua2, nothing_protected
from asymspec_agents.router import ContextRouter
from asymspec_agents.tokens import EstimateCounter
from asymspec_agents.views import ViewPolicy
from benchmarks.passages import long_text
from evals.provenance import provenance

COUNTER = EstimateCounter()
RATE = 0.3
PAUSE_S = 0.001
LIMIT_S = 15.0  # for a text of 2 MB, which takes minutes
LENGTHS = {"40 tokens": 40, "one chunk": 440, "two chunks": 900}  # tokens, by our estimate


class _Weights:
    def encode(self, text: str) -> range:
        return range(COUNTER.count(text))


def make_checkpoint(folder: Path, *, num_layers: int, hidden_size: int, vocab_size: int) -> int:
    """A random mBERT-like token classifier in `folder`; returns its number of parameters."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=3_000, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator([long_text(300_000)], trainer)
    config = BertConfig(
        vocab_size=max(vocab_size, tokenizer.get_vocab_size()),
        hidden_size=hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=max(hidden_size // 64, 1),
        intermediate_size=4 * hidden_size,
        num_labels=2,
    )
    torch.manual_seed(0)
    model = BertForTokenClassification(config)
    model.save_pretrained(folder)
    BertTokenizer(vocab=tokenizer.get_vocab(), do_lower_case=False).save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


def original(folder: Path) -> Any:
    """The package's own compressor."""
    fetch = prompt_compressor.tiktoken.encoding_for_model
    prompt_compressor.tiktoken.encoding_for_model = lambda name: _Weights()
    try:
        return prompt_compressor.PromptCompressor(
            str(folder),
            device_map="cpu",
            model_config={"trust_remote_code": False},
            use_llmlingua2=True,
        )
    finally:
        prompt_compressor.tiktoken.encoding_for_model = fetch


def texts(num_tokens: int, num_texts: int, seed: int) -> list[str]:
    """Different texts of about a number of tokens."""
    made = []
    for index in range(num_texts):
        text = f"{index} {long_text(num_tokens * 8, seed=1_000 * seed + index)}"
        while COUNTER.count(text) > num_tokens:
            text = text[: len(text) * 19 // 20]
        made.append(text)
    return made


@dataclass(frozen=True, slots=True)
class Took:
    """What one call took."""

    wall_s: float
    cpu_s: float


def _timed(work: Callable[[], object]) -> Took:
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    work()
    return Took(time.perf_counter() - wall_s, time.process_time() - cpu_s)


def measure(folder: Path, num_repeats: int) -> dict[str, Any]:
    """Seconds of both for each length, the median ratio of the pairs, and what a text costs us again."""
    ours, theirs = LLMLingua2.load(folder, device="cpu", timeout_s=None), original(folder)

    def run_ours(text: str) -> Took:
        return _timed(lambda: ours.kept_words(text, rate=RATE, counter=COUNTER))

    def run_theirs(text: str) -> Took:
        return _timed(lambda: theirs.compress_prompt([text], rate=RATE))

    (warm_up,) = texts(min(LENGTHS.values()), 1, seed=1)
    run_ours(warm_up)
    run_theirs(warm_up)
    results = {}
    for name, num_tokens in LENGTHS.items():
        pairs: list[tuple[Took, Took]] = []
        again: list[Took] = []
        for index, text in enumerate(texts(num_tokens, num_repeats, seed=2)):
            if index % 2:
                package = run_theirs(text)
                pairs.append((run_ours(text), package))
            else:
                pairs.append((run_ours(text), run_theirs(text)))
            again.append(run_ours(text))
        results[name] = {
            "ours_cpu_s": [one.cpu_s for one, _ in pairs],
            "package_cpu_s": [one.cpu_s for _, one in pairs],
            "ours_wall_s": [one.wall_s for one, _ in pairs],
            "package_wall_s": [one.wall_s for _, one in pairs],
            "median_ratio": statistics.median(package.cpu_s / one.cpu_s for one, package in pairs),
            "ours_again_cpu_s": statistics.median(one.cpu_s for one in again),
        }
    return results


@dataclass(frozen=True, slots=True)
class Pause:
    """The longest time between two turns of an event loop, and the most CPU time of the process in one."""

    wall_s: float
    cpu_s: float


async def longest_pause(work: Awaitable[Any]) -> Pause:
    """The pauses of a loop that only waits until `work` is done."""
    task = asyncio.ensure_future(work)
    longest_s = most_s = 0.0
    last_s, last_cpu_s = time.perf_counter(), time.process_time()
    while not task.done():
        await asyncio.sleep(PAUSE_S)
        now_s, now_cpu_s = time.perf_counter(), time.process_time()
        longest_s, most_s = max(longest_s, now_s - last_s - PAUSE_S), max(most_s, now_cpu_s - last_cpu_s)
        last_s, last_cpu_s = now_s, now_cpu_s
    return Pause(longest_s, most_s)


async def _route(prose: LLMLingua2, text: str, limit_s: float | None) -> dict[str, Any]:
    """One routed call with a result that is new: what became of it, and how long the loop was held up."""
    policy = ViewPolicy(compress_timeout_s=limit_s)
    router = ContextRouter(policy, compressor=AutoCompressor(prose=prose))
    called = {"id": "1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Who sold the old ledgers in Bergen?"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "1", "content": text},
    ]
    gc.collect()
    started_s = time.perf_counter()
    routing = asyncio.ensure_future(router.aroute(messages))
    pause = await longest_pause(routing)
    took_s = time.perf_counter() - started_s
    idle = await longest_pause(asyncio.sleep(min(took_s, LIMIT_S)))
    report = (await routing).report
    return {
        "wall_s": took_s,
        "longest_pause_ms": pause.wall_s * 1e3,
        "longest_pause_cpu_ms": pause.cpu_s * 1e3,
        "idle_ms": idle.wall_s * 1e3,
        "compressor": report.changes[0].compressor,
        "tokens_before": report.changes[0].original_tokens,
        "tokens_after": report.changes[0].tokens,
        "num_degraded": report.num_degraded,
    }


def pauses(folder: Path, small: Path, num_chars: int) -> dict[str, Any]:
    """The event loop's pauses with a long text, by how the classifier is used."""
    text = long_text(num_chars, seed=3)
    forms = {
        "as it comes": (LLMLingua2.load(folder, device="cpu"), LIMIT_S),
        "every word": (
            LLMLingua2.load(folder, device="cpu", protected=nothing_protected, timeout_s=LIMIT_S),
            LIMIT_S,
        ),
        "every word, small": (
            LLMLingua2.load(small, device="cpu", protected=nothing_protected, timeout_s=None),
            None,
        ),
    }
    return {name: asyncio.run(_route(prose, text, limit_s)) for name, (prose, limit_s) in forms.items()}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--vocab", type=int, default=119_547)
    parser.add_argument("--chars", type=int, default=2_000_000, help="of the text that an event loop routes")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch, "bert-base-multilingual-cased")  # the package goes by the name
        num_parameters = make_checkpoint(
            folder, num_layers=options.layers, hidden_size=options.hidden, vocab_size=options.vocab
        )
        results = measure(folder, options.repeats)
        small = Path(scratch, "small")
        make_checkpoint(small, num_layers=1, hidden_size=64, vocab_size=3_000)
        waits = pauses(folder, small, options.chars)
    print(f"{'':<14}{'ours CPU s':>12}{'package CPU s':>15}{'package/ours':>14}{'ours again ms':>15}")
    for name, result in results.items():
        ours_s = statistics.median(result["ours_cpu_s"])
        package_s = statistics.median(result["package_cpu_s"])
        ratio, again_ms = result["median_ratio"], result["ours_again_cpu_s"] * 1e3
        print(f"{name:<14}{ours_s:>12.2f}{package_s:>15.2f}{ratio:>14.2f}{again_ms:>15.1f}")
    print(f"{'':<20}{'s':>8}{'pause ms':>10}{'of CPU':>8}{'idle':>8}{'tokens':>10}{'after':>8}  by")
    for name, one in waits.items():
        print(
            f"{name:<20}{one['wall_s']:>8.1f}{one['longest_pause_ms']:>10.1f}"
            f"{one['longest_pause_cpu_ms']:>8.1f}{one['idle_ms']:>8.1f}"
            f"{one['tokens_before']:>10,}{one['tokens_after']:>8,}  {one['compressor']}"
            + (" (degraded)" if one["num_degraded"] else "")
        )
    made_with = provenance(
        "torch",
        "transformers",
        "llmlingua",
        num_repeats=options.repeats,
        num_threads=options.threads,
        num_parameters=num_parameters,
        num_chars=options.chars,
    )
    line = json.dumps({"provenance": made_with, "results": results, "event_loop": waits})
    print(line)
    if options.output:
        options.output.write_text(line + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
