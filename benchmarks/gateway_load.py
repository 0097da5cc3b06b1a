"""Many streaming clients through the gateway, and through a bare proxy of the same libraries beside it.

`python benchmarks/gateway_load.py` writes benchmarks/results/gateway_load.json and prints a summary.

Upstream, gateway, bare proxy and clients are processes of their own on this machine. Each client makes one
call after another: an agent's conversation that grows by a turn with every call, with one long tool result
that the compressed view shortens. The upstream answers a call's first chunk at once and the others at a
fixed pace, each with the ids of client, call and chunk; the client checks that it gets every chunk of its
own, in order, and nothing else. First one client calls the gateway and the bare proxy by turns, for answers
of one chunk. Then all clients call, spread over the time of one answer, either for some seconds by turns.

Latency is a call's time beyond what the upstream's pace takes, and the time to its first chunk; what the
gateway adds is the difference of the medians. Memory is the gateway's resident set, each second. On a busy
machine calls wait for each other, so that only the CPU time of a call tells the two proxies apart.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

from benchmarks.gateway_servers import DONE, chunk
from evals.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]
OUTPUT = Path(__file__).parent / "results" / "gateway_load.json"
TURNS_KEPT = 8  # a conversation begins anew after so many calls


def conversation(client: str, call: int) -> list[dict[str, Any]]:
    """An agent's messages at its call-th call."""
    manual = "".join(f"Item {n} of {client}'s list is in room {n * 7 % 90}.\n" for n in range(250))
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You look things up and answer in one sentence."},
        {"role": "user", "content": f"In which room is item 77 of {client}'s list?"},
    ]
    for turn in range(call % TURNS_KEPT + 1):
        made = {"name": "read", "arguments": json.dumps({"page": turn})}
        messages += [
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": made}],
            },
            {
                "role": "tool",
                "tool_call_id": f"call_{turn}",
                "content": manual if turn == 0 else f"Page {turn} of call {call} is empty.",
            },
        ]
    return messages


@dataclass
class Seen:
    """What the clients of one target saw."""

    beyond_s: list[float] = field(default_factory=list)
    first_s: list[float] = field(default_factory=list)
    num_chunks: int = 0
    problems: list[str] = field(default_factory=list)

    def row(self) -> dict[str, Any]:
        """The figures, in milliseconds."""
        first, beyond = sorted(self.first_s), sorted(self.beyond_s)
        return {
            "num_calls": len(first),
            "num_chunks": self.num_chunks,
            "num_problems": len(self.problems),
            "first_chunk_ms": {
                "median": _ms(statistics.median(first)),
                "p95": _ms(first[len(first) * 95 // 100]),
            },
            "beyond_pace_ms": {
                "median": _ms(statistics.median(beyond)),
                "p95": _ms(beyond[len(beyond) * 95 // 100]),
            },
        }


def _ms(seconds: float) -> float:
    return round(seconds * 1_000, 2)


async def ask(port: int, client: str, call: int, num_chunks: int, interval_s: float, seen: Seen) -> None:
    """One call, its answer checked chunk by chunk."""
    body = {
        "model": "scripted",
        "user": f"{client}-{call}",
        "stream": True,
        "max_tokens": num_chunks,
        "messages": conversation(client, call),
    }
    content = json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: a\r\ncontent-length: {len(content)}\r\n"
    expected = b"".join(chunk(client, call, index, num_chunks) for index in range(num_chunks)) + DONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        started_s = time.perf_counter()
        writer.write(f"{head}connection: close\r\ncontent-type: application/json\r\n\r\n".encode() + content)
        status = await reader.readuntil(b"\r\n\r\n")
        got = b""
        while (size := int(await reader.readuntil(b"\r\n"), 16)) > 0:
            if not got:
                seen.first_s.append(time.perf_counter() - started_s)
            got += (await reader.readexactly(size + 2))[:-2]
        seen.beyond_s.append(time.perf_counter() - started_s - (num_chunks - 1) * interval_s)
        seen.num_chunks += got.count(b"\n\n") - 1
        if not status.startswith(b"HTTP/1.1 200") or got != expected:
            seen.problems.append(f"{client}-{call}: {len(got)} bytes instead of {len(expected)}")
    except (OSError, ValueError, asyncio.IncompleteReadError) as error:
        seen.problems.append(f"{client}-{call}: {type(error).__name__}")
    finally:
        writer.close()


async def drive(ports: dict[str, int], options: argparse.Namespace, pids: dict[str, int]) -> dict[str, Any]:
    """One client alone, then all of them until the gateway has had its seconds; what they saw."""
    for port in ports.values():  # what a process does only once is not what a call takes
        warm_up = (
            ask(port, f"c{number}", 0, options.chunks, options.interval, Seen())
            for number in range(options.clients)
        )
        await asyncio.gather(*warm_up)
    memory_mib: list[float] = []

    async def watch() -> None:
        while True:
            memory_mib.append(resident_mib(pids["gateway"]))
            await asyncio.sleep(1)

    watching = asyncio.create_task(watch())
    alone = {target: Seen() for target in ports}
    for call in range(options.calls_alone):
        for target, port in ports.items():
            await ask(port, "c0", call, 1, options.interval, alone[target])
    together, cpu_s = await _together(ports, options, pids)
    watching.cancel()
    rest = memory_mib[len(memory_mib) // 4 :]
    both = {"alone": _rows(alone), "together": _rows(together)}
    for target, seconds in cpu_s.items():
        both["together"][target]["cpu_ms_per_call"] = _ms(seconds / len(together[target].first_s))
    return {
        **both,
        "problems": [
            problem for seen in (alone, together) for of in seen.values() for problem in of.problems
        ],
        "gateway_memory_mib": {
            "start": memory_mib[0],
            "first_quarter": rest[0],
            "end": memory_mib[-1],
            "growth_after_first_quarter": round(max(rest) - rest[0], 1),
        },
    }


async def _together(
    ports: dict[str, int], options: argparse.Namespace, pids: dict[str, int]
) -> tuple[dict[str, Seen], dict[str, float]]:
    """What all clients saw of each target, and the seconds of CPU that it took."""
    seen = {target: Seen() for target in ports}
    cpu_s = dict.fromkeys(ports, 0.0)
    next_call = dict.fromkeys(range(options.clients), 0)

    async def keep_asking(number: int, target: str, until_s: float) -> None:
        await asyncio.sleep(number / options.clients * options.chunks * options.interval)
        while time.perf_counter() < until_s:
            call, next_call[number] = next_call[number], next_call[number] + 1
            await ask(ports[target], f"c{number}", call, options.chunks, options.interval, seen[target])

    spent_s = 0.0
    while spent_s < options.seconds:
        turn_s = min(options.turn, options.seconds - spent_s)
        for target in ports:
            before_s = cpu_seconds(pids[target])
            until_s = time.perf_counter() + turn_s
            await asyncio.gather(*(keep_asking(n, target, until_s) for n in range(options.clients)))
            cpu_s[target] += cpu_seconds(pids[target]) - before_s
        spent_s += turn_s
    return seen, cpu_s


def _rows(seen: dict[str, Seen]) -> dict[str, Any]:
    rows: dict[str, Any] = {target: of_target.row() for target, of_target in seen.items()}
    rows["added_ms"] = {
        name: round(rows["gateway"][name]["median"] - rows["bare"][name]["median"], 2)
        for name in ("first_chunk_ms", "beyond_pace_ms")
    }
    return rows


def cpu_seconds(pid: int) -> float:
    """CPU time the process has taken (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """The process's resident memory (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text("utf-8")
    kib = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    return round(int(kib) / 1_024, 1)


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A Python process, ended at the end."""
    running = subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        yield running
    finally:
        running.terminate()
        running.communicate(timeout=60)


def first_line(running: subprocess.Popen[str]) -> str:
    """What it prints once it serves."""
    assert running.stdout is not None
    return running.stdout.readline().strip()


def run(options: argparse.Namespace) -> dict[str, Any]:
    """All processes, and what the clients saw."""
    pace = ("--interval", str(options.interval))
    script = str(Path(__file__).with_name("gateway_servers.py"))
    with contextlib.ExitStack() as stack:
        upstream = f"http://127.0.0.1:{first_line(stack.enter_context(process(script, 'upstream', *pace)))}"
        bare = stack.enter_context(process(script, "bare", "--upstream", upstream))
        gateway = stack.enter_context(
            process("-m", "asymspec_agents", "gateway", "--port", "0", "--upstream", upstream)
        )
        address = first_line(gateway).split()[1]
        ports = {"gateway": int(address.split(":")[2].split("/")[0]), "bare": int(first_line(bare))}
        return asyncio.run(drive(ports, options, {"gateway": gateway.pid, "bare": bare.pid}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0, help="of load on the gateway")
    parser.add_argument("--turn", type=float, default=20.0, help="seconds at a time")
    parser.add_argument("--calls-alone", type=int, default=200, help="of one client, before the others come")
    parser.add_argument("--chunks", type=int, default=40, help="of an answer")
    parser.add_argument("--interval", type=float, default=0.1, help="seconds between chunks")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    results = run(options)
    names = ("clients", "seconds", "turn", "calls_alone", "chunks", "interval")
    made_with = provenance(
        "httpx", "starlette", "uvicorn", **{name: getattr(options, name) for name in names}
    )
    text = json.dumps({"provenance": made_with, **results}, indent=1)
    options.output.write_text(text + "\n", encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
