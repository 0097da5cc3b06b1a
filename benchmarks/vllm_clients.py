"""The clients of `vllm_long_run.py`: they ask, check what comes, and some of them die on the way."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import json
import math
import random
import socket
import struct
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import httpx

from benchmarks.vllm_requests import Author, Wish

__all__ = ["Clients"]

TIME_LIMIT_S = 600.0  # of one answer; whoever waits longer waits for ever
LN2 = math.log(2)
ENDS = ("stop", "length", "tool_calls")
MAX_FAULTS = 20


@dataclass
class Clients:
    """Asks what `author` makes up, `num_at_once` at a time; one in nine clients dies at some moment."""

    url: str
    author: Author
    num_at_once: int = 12
    seed: int = 0
    kinds: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    num_repeated: int = 0
    num_differing: int = 0
    num_killed: int = 0
    num_emitted: int = 0
    num_accepted: int = 0
    num_drafted: int = 0

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    async def ask(self, num_requests: int) -> None:
        """Asks so many; the last answers are there, or given up, when it returns."""
        left = iter(range(num_requests))
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self.num_at_once)
        async with httpx.AsyncClient(base_url=self.url, timeout=TIME_LIMIT_S, limits=limits) as http:
            await asyncio.gather(*(self._one_after_the_other(http, left) for _ in range(self.num_at_once)))

    async def answer(self, wish: Wish) -> None:
        """Asks one and waits for its answer."""
        async with httpx.AsyncClient(base_url=self.url, timeout=TIME_LIMIT_S) as http:
            await self._answer(http, wish)

    async def _one_after_the_other(self, http: httpx.AsyncClient, left: Any) -> None:
        for _ in left:
            if self._rng.random() < 0.11:
                await self._die(self.author.wish())
            else:
                await self._answer(http, self.author.wish())

    async def _answer(self, http: httpx.AsyncClient, wish: Wish) -> None:
        self.kinds[wish.kind] += 1
        content = json.dumps({"model": "tiny", **wish.body}).encode()  # as httpx would refuse surrogates
        headers = {"content-type": "application/json"}
        try:
            response = await http.post(wish.path, content=content, headers=headers)
        except httpx.TimeoutException:
            self._fault(wish, f"no answer in {TIME_LIMIT_S} s")
            return
        except httpx.TransportError as error:
            self._fault(wish, f"{type(error).__name__}: {error}")
            return
        if response.status_code != wish.status:
            self._fault(wish, f"status {response.status_code}: {response.text[:300]}")
        elif response.status_code == 200:
            self._check(wish, response.text)
        elif not response.json()["error"]["message"]:
            self._fault(wish, "a refusal that says nothing")

    def _check(self, wish: Wish, body: str) -> None:
        try:
            chunks = _chunks(body) if wish.body.get("stream") else [json.loads(body)]
            last = next(chunk for chunk in reversed(chunks) if chunk["choices"])
            end = last["choices"][0]["finish_reason"]
            text = "".join(_text(choice) for chunk in chunks for choice in chunk["choices"])
            text = text.rstrip(
                "\N{REPLACEMENT CHARACTER}"
            )  # of a character cut, only whole answers show a mark
        except (KeyError, ValueError, StopIteration) as error:
            self._fault(wish, f"{type(error).__name__} {error} in {body[-300:]}")
            return
        if end not in ENDS:
            self._fault(wish, f"finish_reason {end}")
        if wish.has_views:
            self._check_report(wish, last.get("asymspec"))
        elif "asymspec" in last:
            self._fault(wish, "a plain answer with a report")
        if wish.is_settled:
            before = self.texts.setdefault(wish.key, text)
            self.num_repeated += before is not text
            self.num_differing += before != text

    def _check_report(self, wish: Wish, report: Any) -> None:
        if not report:
            self._fault(wish, "no report")
            return
        num_emitted = report["accepted"] + report["fused"] + report["bonus"]
        divergence = report["mean_divergence"]
        if not (report["accepted"] <= report["drafted"] and num_emitted > 0 and 0 <= divergence <= LN2):
            self._fault(wish, f"report {report}")
        self.num_emitted += num_emitted
        self.num_accepted += report["accepted"]
        self.num_drafted += report["drafted"]

    async def _die(self, wish: Wish) -> None:
        """Asks, and resets the connection: before the request is whole, before the answer is, or in it."""
        self.num_killed += 1
        address = urlsplit(self.url)
        body = json.dumps({"model": "tiny", **wish.body, "stream": self._rng.random() < 0.7}).encode()
        head = f"POST {wish.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        message = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        if self._rng.random() < 0.2:
            message = message[: self._rng.randrange(len(message))]
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(message)
        with contextlib.suppress(OSError, asyncio.TimeoutError):
            await writer.drain()
            await asyncio.sleep(self._rng.choice((0.0, 0.01, 0.1, 0.5)) * self._rng.random())
            if self._rng.random() < 0.5:
                await asyncio.wait_for(reader.read(200), timeout=0.5)
        if self._rng.random() < 0.5:
            reset = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
        writer.transport.abort()

    def _fault(self, wish: Wish, what: str) -> None:
        if len(self.faults) < MAX_FAULTS:
            self.faults.append(f"{wish.kind}: {what}")


def _chunks(body: str) -> list[Any]:
    """The events of a stream. Raises ValueError where it doesn't end as it must."""
    events = [line.removeprefix("data: ") for line in body.splitlines() if line.startswith("data: ")]
    if not events or events[-1] != "[DONE]":
        raise ValueError("the stream doesn't end with [DONE]")
    return [json.loads(event) for event in events[:-1]]


def _text(choice: Any) -> str:
    """The text of a choice, whole or in pieces."""
    part = choice.get("message") or choice.get("delta") or choice
    text: str = part.get("content") or part.get("text") or ""
    return text
