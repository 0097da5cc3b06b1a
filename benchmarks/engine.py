"""How fast the reference engine is: `python benchmarks/engine.py [--tiny]` prints tables and writes JSON.

One run measures (a) a block against the bare forwards in it, (b) AsymSpec against Ceiling and Floor, prefill
included, at several lengths of the full view, (c) seconds per turn of a growing conversation. The pair is the
default one in bfloat16; `--tiny` takes small random models instead, to see that the script works.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # before torch: spinning threads slow each other down
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

import torch

from asymspec_agents.decoding.modes import Rule
from asymspec_agents.engine.arms import arm_named
from asymspec_agents.engine.engine import DecodeRequest, Engine
from asymspec_agents.engine.loop import Readers, next_block
from asymspec_agents.engine.model import CausalModel
from asymspec_agents.engine.view import View
from asymspec_agents.trace import MemoryRecorder, ResponseEvent
from benchmarks.passages import long_text
from evals.provenance import provenance

NUM_DRAFT_TOKENS = 2
COMPRESSED_SHARE = 0.2
ARMS = ("asymspec", "ceiling", "floor")
OUTPUT = Path(__file__).parent / "results" / "engine.json"
WARM_UP_BLOCKS = 2


@dataclass(frozen=True, slots=True)
class Plan:
    """How much to measure."""

    lengths: tuple[int, ...]
    block_lengths: tuple[int, ...]
    num_blocks: int
    output_tokens: int
    num_turns: int
    turn_tokens: int
    turn_output_tokens: int


FULL_PLAN = Plan((1024, 2048, 4096), (1024, 4096), 15, 64, 8, 300, 16)
TINY_PLAN = Plan((64, 128), (64,), 5, 12, 3, 30, 6)


def block_over_forwards(engine: Engine, tokens: list[int], length: int, num_blocks: int) -> dict[str, Any]:
    """Median seconds of a block and of its bare forwards, taken in turns on the same caches."""
    full, compressed = tokens[:length], tokens[: int(length * COMPRESSED_SHARE)]
    verifier, drafter = engine.models["verifier"], engine.models["drafter"]
    readers = Readers(View(verifier, compressed), View(drafter, full), View(drafter, compressed))
    for view in readers.all():
        view.prefill(lambda: None)
    places = NUM_DRAFT_TOKENS + 1
    verifying, drafting, base = readers.all()
    packs = drafter.can_pack  # both of the drafter's views then share its forwards
    reads: list[tuple[tuple[View, ...], int]]
    reads = [((drafting, base), 1)] * places if packs else [((drafting,), 1)] * places + [((base,), places)]
    reads.append(((verifying,), places))
    committed: list[int] = []
    block_s, forwards_s = [], []

    def block() -> None:
        found = next_block(readers, committed, Rule(), NUM_DRAFT_TOKENS, "rule", engine.vocab_size)
        committed.extend(found.tokens)
        for view in readers.all():
            view.rewind(committed)

    for _ in range(WARM_UP_BLOCKS + num_blocks):
        forwards_s.append(sum(_bare_forward_s(views, num_tokens) for views, num_tokens in reads))
        block_s.append(_seconds(block))
    block_median = statistics.median(block_s[WARM_UP_BLOCKS:])
    forwards_median = statistics.median(forwards_s[WARM_UP_BLOCKS:])
    return {
        "full_tokens": len(full),
        "compressed_tokens": len(compressed),
        "block_s": block_median,
        "forwards_s": forwards_median,
        "ratio": block_median / forwards_median,
    }


@torch.inference_mode()
def _bare_forward_s(views: tuple[View, ...], num_tokens: int) -> float:
    """One forward of the model over as many new tokens of each view."""
    model, lengths = views[0].model, [view.cache.length for view in views]
    ids = torch.full((1, num_tokens), 5, device=model.device)
    caches = [view.cache for view in views]
    if len(views) > 1:
        seconds = _seconds(lambda: model.forward_packed([ids] * len(views), caches))
    else:
        seconds = _seconds(lambda: model.module(input_ids=ids, past_key_values=caches[0], use_cache=True))
    for cache, length in zip(caches, lengths, strict=True):
        cache.rewind(length)
    return seconds


def _seconds(work: Callable[[], Any]) -> float:
    started_s = time.perf_counter()
    work()
    return time.perf_counter() - started_s


def answer(
    engine: Engine, full: list[int], compressed: list[int], arm: str, max_tokens: int
) -> tuple[dict[str, Any], list[int]]:
    """One request's figures, and the tokens of its answer."""
    recorder = MemoryRecorder()
    engine.recorder = recorder
    request = DecodeRequest(full=full, compressed=compressed, arm=arm_named(arm), max_tokens=max_tokens)
    stream = engine.decode(request)
    blocks: list[tuple[int, ...]] = []
    while True:
        try:
            blocks.append(next(stream).tokens)
        except StopIteration as end:
            report = end.value.report
            break
    tokens = [token for block in blocks for token in block]
    response = next(event for event in recorder.events if isinstance(event, ResponseEvent))
    first_s = response.time_to_first_token_s or 0.0
    decode_s = response.elapsed_s - first_s
    figures = {
        "arm": arm,
        "time_to_first_token_s": first_s,
        "total_s": response.elapsed_s,
        "decode_tokens_per_s": (len(tokens) - len(blocks[0])) / decode_s if decode_s else None,
        "acceptance": report.accepted / report.drafted if report.drafted else None,
        "tokens_per_block": len(tokens) / len(blocks),
        "forwarded_tokens": response.forwarded_tokens.model_dump(),
    }
    return figures, tokens


def arms_at(engine: Engine, tokens: list[int], length: int, output_tokens: int) -> Iterator[dict[str, Any]]:
    """Every arm once, from empty caches."""
    full, compressed = tokens[-length:], tokens[-int(length * COMPRESSED_SHARE) :]
    for arm in ARMS:
        engine.prefixes.clear()
        figures, _ = answer(engine, full, compressed, arm, output_tokens)
        yield {"full_tokens": len(full), "compressed_tokens": len(compressed), **figures}
    engine.prefixes.clear()


def conversation(engine: Engine, tokens: list[int], plan: Plan, arm: str) -> Iterator[dict[str, Any]]:
    """A conversation that grows by one tool output a turn, caches kept from turn to turn."""
    engine.prefixes.clear()
    full, compressed = tokens[: plan.turn_tokens], tokens[: int(plan.turn_tokens * COMPRESSED_SHARE)]
    for turn in range(plan.num_turns):
        output = tokens[(turn + 1) * plan.turn_tokens : (turn + 2) * plan.turn_tokens]
        figures, emitted = answer(engine, full, compressed, arm, plan.turn_output_tokens)
        yield {"turn": turn, "full_tokens": len(full), "compressed_tokens": len(compressed), **figures}
        full = [*full, *emitted, *output]
        compressed = [*compressed, *emitted, *output[: int(plan.turn_tokens * COMPRESSED_SHARE)]]


class _Numbers:
    """A tokenizer for random models."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        return "".join(f"{token} " for token in token_ids)


def tiny_engine() -> tuple[Engine, list[int]]:
    """Two small random models, the drafter a little smaller, and random tokens."""
    from transformers import AutoModelForCausalLM, Qwen2Config

    def model(name: str, num_layers: int) -> CausalModel:
        config = Qwen2Config(
            vocab_size=512,
            hidden_size=64,
            intermediate_size=128,
            num_hidden_layers=num_layers,
            num_attention_heads=4,
            num_key_value_heads=2,
        )
        return CausalModel(AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16), name)  # type: ignore[no-untyped-call]

    torch.manual_seed(0)
    engine = Engine(model("verifier", 4), model("drafter", 2), _Numbers(), 512)
    return engine, torch.randint(0, 512, (1000,)).tolist()


def real_engine(num_tokens: int) -> tuple[Engine, list[int]]:
    """The default pair and the tokens of passages with a question behind them."""
    from asymspec_agents.engine.load import load_pair
    from asymspec_agents.weights import DEFAULT_PAIR, resolve, show_progress

    with show_progress() as progress:
        folders = [
            resolve(name, progress=progress).path for name in (DEFAULT_PAIR.verifier, DEFAULT_PAIR.drafter)
        ]
    pair = load_pair(folders[0], folders[1], dtype="bfloat16")
    tokenizer = pair.template.tokenizer
    tokens: list[int] = tokenizer.encode(long_text(6 * num_tokens), add_special_tokens=False)
    question = (
        "<|im_end|>\n<|im_start|>user\nTell the story of these passages.<|im_end|>\n<|im_start|>assistant\n"
    )
    tail = tokenizer.encode(question, add_special_tokens=False)
    return pair.engine, tokens[: num_tokens - len(tail)] + tail


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="small random models, a few seconds")
    parser.add_argument("--output", type=Path, default=None, help=f"JSON file (default {OUTPUT.name})")
    arguments = parser.parse_args()
    plan = TINY_PLAN if arguments.tiny else FULL_PLAN
    needed = max(*plan.lengths, (plan.num_turns + 2) * plan.turn_tokens)
    engine, tokens = tiny_engine() if arguments.tiny else real_engine(needed)
    for model in engine.models.values():
        model.eos_token_ids = frozenset()  # answers of equal length

    facts = {"num_threads": torch.get_num_threads(), "num_blocks": plan.num_blocks, "num_runs": 1}
    models = {role: model.name for role, model in engine.models.items()}
    result: dict[str, Any] = {"provenance": provenance("torch", "transformers", models=models, **facts)}
    blocks = [block_over_forwards(engine, tokens, n, plan.num_blocks) for n in plan.block_lengths]
    result["block"] = blocks
    print(f"{'view tokens':<16}{'block ms':>10}{'forwards ms':>13}{'ratio':>8}")
    for row in blocks:
        views = f"{row['full_tokens']}/{row['compressed_tokens']}"
        print(f"{views:<16}{row['block_s'] * 1e3:>10.1f}{row['forwards_s'] * 1e3:>13.1f}{row['ratio']:>8.2f}")

    print(f"\n{'view tokens':<16}{'arm':<10}{'first s':>9}{'total s':>9}{'tokens/s':>10}{'accepted':>10}")
    result["arms"] = []
    for length in plan.lengths:
        for row in arms_at(engine, tokens, length, plan.output_tokens):
            result["arms"].append(row)
            _print_row(f"{row['full_tokens']}/{row['compressed_tokens']}", row)

    print(f"\n{'turn (tokens)':<16}{'arm':<10}{'first s':>9}{'total s':>9}{'tokens/s':>10}{'accepted':>10}")
    result["turns"] = []
    for arm in ("asymspec", "ceiling"):
        for row in conversation(engine, tokens, plan, arm):
            result["turns"].append(row)
            _print_row(f"{row['turn']} ({row['full_tokens']})", row)

    output = arguments.output or (None if arguments.tiny else OUTPUT)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
        print(f"\nwritten to {output}")


def _print_row(label: str, row: dict[str, Any]) -> None:
    accepted = "" if row["acceptance"] is None else f"{row['acceptance']:.2f}"
    print(
        f"{label:<16}{row['arm']:<10}{row['time_to_first_token_s']:>9.2f}{row['total_s']:>9.2f}"
        f"{row['decode_tokens_per_s'] or 0:>10.1f}{accepted:>10}",
        flush=True,
    )


if __name__ == "__main__":
    main()
