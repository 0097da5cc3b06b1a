"""How fast each content kind is compressed, and how long a 2 MB tool output holds up an event loop.

`python benchmarks/compressors.py` prints a table and writes `results/compressors.json`. One thread; token
counts by the default estimate are part of it. MB/s are of CPU time, best of the repeats, as wall time says
little on a busy machine. The stall is the longest time between two turns of an event loop that only waits
while `ContextRouter.aroute` takes a call with a new 2 MB result; beside it, the same loop with nothing to do.
On a busy machine that is mostly time in which this process did not run, so the stall is given in CPU time of
the process, too: what the work itself takes from the loop.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

from asymspec_agents.compress import AutoCompressor, detect_kind
from asymspec_agents.router import ContextRouter
from asymspec_agents.tokens import EstimateCounter
from benchmarks.contents import CONTENTS, content
from evals.provenance import provenance

QUERY = (
    "Which request failed, what is the amount of invoice INV-001234 of cedar harbor, and what did the museum "
    "record in the archive in 1923?"
)
RATIO = 0.3
MAX_TOKENS = 2_000  # the router's default
PAUSE_S = 0.001


def speed(name: str, num_chars: int, num_repeats: int) -> dict[str, Any]:
    """MB/s at the router's default target and at 0.3 of the text."""
    text, compressor, counter = content(name, num_chars), AutoCompressor(), EstimateCounter()
    num_bytes, num_tokens = len(text.encode()), counter.count(text)
    result: dict[str, Any] = {"detected": detect_kind(text), "bytes": num_bytes, "tokens": num_tokens}
    for label, target in (("default", MAX_TOKENS), ("ratio", int(num_tokens * RATIO))):
        best_s = float("inf")
        for _ in range(num_repeats):
            gc.collect()
            started_s = time.thread_time()
            made = compressor.compress(text, query=QUERY, target_tokens=target, counter=counter)
            best_s = min(best_s, time.thread_time() - started_s)
        result[label] = {
            "mb_per_s": num_bytes / 1e6 / best_s,
            "compressor": made.compressor,
            "tokens": counter.count(made.text),
            "target_tokens": target,
        }
    return result


@dataclass(frozen=True, slots=True)
class Stall:
    """The longest time between two turns of a loop: on the clock, and of this process's CPU."""

    wall_s: float
    cpu_s: float


async def _stall(work: Any) -> Stall:
    """The loop's longest stall while `work` runs."""
    task = asyncio.ensure_future(work)
    wall_s = cpu_s = 0.0
    last, last_cpu = time.perf_counter(), time.process_time()
    while not task.done():
        await asyncio.sleep(PAUSE_S)
        now, now_cpu = time.perf_counter(), time.process_time()
        wall_s, last = max(wall_s, now - last - PAUSE_S), now
        cpu_s, last_cpu = max(cpu_s, now_cpu - last_cpu), now_cpu
    await task
    return Stall(wall_s, cpu_s)


async def stall(name: str, num_chars: int, num_repeats: int) -> dict[str, float]:
    """Medians and maxima over repeats of the loop's longest stall, in milliseconds, and of an idle one's."""
    text = content(name, num_chars)
    longest, idle = [], []
    for number in range(num_repeats):
        function = {"name": "read", "arguments": json.dumps({"number": number})}
        called = {"id": "1", "type": "function", "function": function}
        messages = [
            {"role": "user", "content": QUERY},
            {"role": "assistant", "content": None, "tool_calls": [called]},
            {"role": "tool", "tool_call_id": "1", "content": f"{text}\n"},
        ]
        gc.collect()
        started_s = time.perf_counter()
        longest.append(await _stall(ContextRouter().aroute(messages)))
        idle.append(await _stall(asyncio.sleep(time.perf_counter() - started_s)))
    return {
        "median_ms": _median_ms([one.wall_s for one in longest]),
        "max_ms": max(one.wall_s for one in longest) * 1e3,
        "median_cpu_ms": _median_ms([one.cpu_s for one in longest]),
        "max_cpu_ms": max(one.cpu_s for one in longest) * 1e3,
        "idle_ms": _median_ms([one.wall_s for one in idle]),
    }


def _median_ms(seconds: list[float]) -> float:
    return sorted(seconds)[len(seconds) // 2] * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--chars", type=int, default=2_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", choices=CONTENTS, action="append")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results" / "compressors.json")
    args = parser.parse_args()
    results = {}
    print(
        f"{'content':<16}{'kind':<12}{'MB/s':>8}{'MB/s at 0.3':>14}"
        f"{'stall ms':>10}{'max':>8}{'idle':>8}{'CPU ms':>8}{'max':>8}"
    )
    for name in args.only or CONTENTS:
        result = speed(name, args.chars, args.repeats)
        result["stall"] = asyncio.run(stall(name, args.chars, args.repeats))
        results[name] = result
        waits = result["stall"]
        print(
            f"{name:<16}{result['detected']:<12}{result['default']['mb_per_s']:>8.1f}"
            f"{result['ratio']['mb_per_s']:>14.1f}{waits['median_ms']:>10.1f}{waits['max_ms']:>8.1f}"
            f"{waits['idle_ms']:>8.1f}{waits['median_cpu_ms']:>8.1f}{waits['max_cpu_ms']:>8.1f}",
            flush=True,
        )
    facts = provenance("bm25s", "numpy", "pydantic", num_chars=args.chars, num_repeats=args.repeats)
    document = {"provenance": facts, "query": QUERY, "results": results}
    args.output.write_text(json.dumps(document, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
