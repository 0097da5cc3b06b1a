"""A small real upstream whose answers a test scripts, and which tells what became of every request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope, Send

__all__ = ["ASYMSPEC", "Got", "Script", "Upstream", "chunk", "chunks", "completion", "completion_for"]

ASYMSPEC: Mapping[str, Any] = {
    "version": 1,
    "verifier": "big",
    "drafter": "small",
    "modes": ["asymspec"],
    "max_verifier_tokens": None,
    "max_drafter_tokens": None,
    "tokenize": False,
}
JSON = ("content-type", "application/json")
EVENTS = ("content-type", "text/event-stream; charset=utf-8")


@dataclass(slots=True)
class Got:
    """A request as the upstream got it; `end` is what became of it."""

    path: str
    headers: list[tuple[str, str]]
    content: bytes
    query: str = ""
    end: str = "open"

    @property
    def body(self) -> dict[str, Any]:
        parsed: dict[str, Any] = json.loads(self.content)
        return parsed

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


@dataclass(slots=True)
class Script:
    """What to answer: status, headers, and pieces; a number among them is a pause in seconds.

    `cut` breaks the connection off after the last piece, `hang` never ends the answer.
    """

    pieces: list[bytes | float] = field(default_factory=list)
    status: int = 200
    headers: list[tuple[str, str]] = field(default_factory=lambda: [JSON])
    cut: bool = False
    hang: bool = False
    hangs_before: bool = False


Answer = Callable[[Got], Script]


class Upstream:
    """The ASGI application; `answer` may be changed at any time, `info` None makes it a plain server."""

    def __init__(self, info: Mapping[str, Any] | None = ASYMSPEC) -> None:
        self.info = info
        self.key: str | None = None
        self.num_handshakes = 0
        self.answer: Answer
        self.got: list[Got]
        self.reset()

    def reset(self) -> None:
        """Forgets what was asked, and answers as usual."""
        self.answer = completion_for
        self.got = []

    @property
    def calls(self) -> list[Got]:
        """The completions that were asked for."""
        return [got for got in self.got if got.path.endswith("completions")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while (message := await receive())["type"] != "lifespan.shutdown":
                await send({"type": f"{message['type']}.complete"})
            await send({"type": "lifespan.shutdown.complete"})
            return
        content = b"".join([piece async for piece in _body(receive)])
        headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
        got = Got(scope["path"], headers, content, scope["query_string"].decode())
        if self.key is not None and got.header("authorization") != f"Bearer {self.key}":
            await self._send(Script([b'{"error":"key"}'], 401), got, receive, send)
            return
        if scope["path"] == "/v1/asymspec":
            self.num_handshakes += 1
            await self._send(self._handshake(), got, receive, send)
            return
        self.got.append(got)
        if scope["path"] == "/v1/models":
            models = {"object": "list", "data": [{"id": "big", "object": "model"}]}
            await self._send(Script([json.dumps(models).encode()]), got, receive, send)
            return
        await self._send(self.answer(got), got, receive, send)

    def _handshake(self) -> Script:
        if self.info is None:
            return Script([b'{"detail":"Not Found"}'], 404)
        return Script([json.dumps(self.info).encode()])

    async def _send(self, script: Script, got: Got, receive: Receive, send: Send) -> None:
        sending = asyncio.create_task(self._sent(script, send))
        leaving = asyncio.create_task(_left(receive))
        await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
        got.end = "whole" if sending.done() else "left"
        for task in (sending, leaving):
            task.cancel()
        await asyncio.gather(sending, leaving, return_exceptions=True)
        if script.cut:
            got.end = "cut"
            raise ConnectionAbortedError("the script breaks off here")

    async def _sent(self, script: Script, send: Send) -> None:
        if script.hangs_before:
            await asyncio.Event().wait()
        headers = [(name.encode(), value.encode()) for name, value in script.headers]
        await send({"type": "http.response.start", "status": script.status, "headers": headers})
        for piece in script.pieces:
            if isinstance(piece, bytes):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            else:
                await asyncio.sleep(piece)
        if script.hang:
            await asyncio.Event().wait()
        if not script.cut:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _body(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def completion(text: str = "Hello", **fields: Any) -> bytes:
    """A whole chat completion; the spaces in it are no compact JSON's."""
    answer: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "big",
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
        **fields,
    }
    return json.dumps(answer).encode()


def chunk(delta: Mapping[str, Any], finish_reason: str | None = None, **fields: Any) -> bytes:
    """One event of a chat stream."""
    data = {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "big",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}],
        **fields,
    }
    return b"data: " + json.dumps(data).encode() + b"\n\n"


def chunks(*words: str, **last: Any) -> list[bytes]:
    """The events of a whole chat stream."""
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"content": word}) for word in words),
        chunk({}, "stop", **last),
        b"data: [DONE]\n\n",
    ]


def completion_for(got: Got) -> Script:
    """The usual answer, in the form that was asked for, with a report where one is due."""
    report = {"asymspec": {"version": 1, "mode": "asymspec"}} if got.body.get("asymspec") else {}
    if got.body.get("stream"):
        return Script([*chunks("Hel", "lo", **report)], headers=[EVENTS])
    return Script([completion(**report)])
