"""What routing a call costs: `python benchmarks/router.py` prints a table and, last, a line of JSON.

The call's 200 turns (1 MB of results) were seen before. Messages come as fresh dicts every time, so parsing
them is part of it. Wall and CPU seconds are given: on a busy machine the first says little.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import random
import statistics
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

from asymspec_agents.compress.auto import AutoCompressor
from asymspec_agents.compress.base import Rendition
from asymspec_agents.router import ContextRouter
from asymspec_agents.tokens import EstimateCounter, TokenCounter
from asymspec_agents.views import ViewPolicy
from evals.provenance import provenance

NUM_TURNS = 200
RESULT_CHARS = 5_000
LIMITS = {"no budget": None, "budget of 20,000 tokens": 20_000}


@dataclass
class Watched:
    """The default counter and compressor, counting how often each is at work."""

    num_counts: int = 0
    num_renditions: int = 0
    counter: EstimateCounter = field(default_factory=EstimateCounter)
    compressor: AutoCompressor = field(default_factory=AutoCompressor)

    @property
    def name(self) -> str:
        return self.counter.name

    @property
    def configuration(self) -> str:
        return self.compressor.configuration

    def count(self, text: str) -> int:
        self.num_counts += 1
        return self.counter.count(text)

    def compress(self, text: str, *, query: str, target_tokens: int, counter: TokenCounter) -> Rendition:
        self.num_renditions += 1
        return self.compressor.compress(text, query=query, target_tokens=target_tokens, counter=self.counter)


def conversation(num_turns: int, seed: int = 0) -> list[dict[str, Any]]:
    """A tool-calling agent's messages, every result another text."""
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(2, 9))) for _ in range(5_000)]
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent that plans journeys."},
        {"role": "user", "content": "Which train reaches Rome before ten?"},
    ]
    for turn in range(num_turns):
        text = ""
        while len(text) < RESULT_CHARS:
            text += " ".join(rng.choices(words, k=12)) + ".\n"
        function = {"name": "search", "arguments": json.dumps({"query": f"trains, page {turn}"})}
        called = {"id": f"call_{turn}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": "I look further.", "tool_calls": [called]})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": text})
    return messages


def measure(limit: int | None, num_repeats: int) -> dict[str, Any]:
    """Seconds of the first call, of the same call again, of one with a new turn; and the work done."""
    watched = Watched()
    router = ContextRouter(ViewPolicy(max_verifier_tokens=limit), counter=watched, compressor=watched)
    messages = conversation(NUM_TURNS + num_repeats)
    seen = messages[: 2 + 2 * NUM_TURNS]
    started_s = time.perf_counter()
    routed = router.route(seen)
    first_s = time.perf_counter() - started_s
    watched.num_counts = watched.num_renditions = 0
    repeated = [_timed(router, copy.deepcopy(seen)) for _ in range(num_repeats)]
    work_repeated = (watched.num_counts, watched.num_renditions)
    watched.num_counts = watched.num_renditions = 0
    grown = [
        _timed(router, copy.deepcopy(messages[: len(seen) + 2 * more])) for more in range(1, num_repeats + 1)
    ]
    return {
        "num_bytes": sum(len(message["content"].encode()) for message in seen),
        "full_tokens": routed.report.full_tokens,
        "compressed_tokens": routed.report.compressed_tokens,
        "first_s": first_s,
        "seen_before_s": statistics.median(wall for wall, _ in repeated),
        "seen_before_cpu_s": statistics.median(cpu for _, cpu in repeated),
        "seen_before_num_counts": work_repeated[0],
        "seen_before_num_renditions": work_repeated[1],
        "one_new_turn_s": statistics.median(wall for wall, _ in grown),
        "one_new_turn_cpu_s": statistics.median(cpu for _, cpu in grown),
        "one_new_turn_num_renditions": watched.num_renditions / num_repeats,
    }


def _timed(router: ContextRouter, messages: list[dict[str, Any]]) -> tuple[float, float]:
    gc.collect()
    wall_s, cpu_s = time.perf_counter(), time.process_time()
    router.route(messages)
    return time.perf_counter() - wall_s, time.process_time() - cpu_s


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=30)
    num_repeats = parser.parse_args().repeats
    results = {name: measure(limit, num_repeats) for name, limit in LIMITS.items()}
    print(f"{'median of ' + str(num_repeats):<28}{'wall ms':>10}{'CPU ms':>10}{'compressions':>14}")
    for name, result in results.items():
        print(f"{name}: {result['full_tokens']:,} tokens full, {result['compressed_tokens']:,} compressed")
        print(f"{'  first call (once)':<28}{result['first_s'] * 1e3:>10.1f}")
        for row, label in (("seen_before", "  seen before"), ("one_new_turn", "  one new turn")):
            wall_ms, cpu_ms = result[f"{row}_s"] * 1e3, result[f"{row}_cpu_s"] * 1e3
            print(f"{label:<28}{wall_ms:>10.1f}{cpu_ms:>10.1f}{result[f'{row}_num_renditions']:>14.1f}")
    made_with = provenance("pydantic", num_turns=NUM_TURNS, num_repeats=num_repeats)
    print(json.dumps({"provenance": made_with, "results": results}))


if __name__ == "__main__":
    main()
