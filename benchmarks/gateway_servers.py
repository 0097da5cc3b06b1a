"""The servers of the gateway's load benchmark: a scripted upstream, and a proxy that only passes bytes.

`gateway_servers.py upstream --interval S` and `gateway_servers.py bare --upstream URL` print their port.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # when run as a script

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from asymspec_agents.server.running import listen

INFO = {"version": 1, "verifier": "scripted", "drafter": "small", "modes": ["asymspec"]}


def chunk(client: str, call: int, index: int, num_chunks: int) -> bytes:
    """The event with these ids; the last one ends the answer."""
    is_last = index == num_chunks - 1
    data: dict[str, Any] = {
        "id": f"{client}-{call}",
        "object": "chat.completion.chunk",
        "choices": [
            {
                "index": 0,
                "delta": {"content": f"{client}-{call}-{index} "},
                "finish_reason": "stop" if is_last else None,
            }
        ],
    }
    if is_last:
        data["asymspec"] = {"version": 1, "mode": "asymspec"}
    return b"data: " + json.dumps(data).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"


async def serve_upstream(interval_s: float) -> None:
    """Answers with a chunk for each of `max_tokens` until it is ended; prints its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                length = next(
                    (line[15:] for line in head.split("\r\n") if line.startswith("content-length:")), "0"
                )
                body = await reader.readexactly(int(length))
                if head.startswith("get"):
                    told = json.dumps(INFO).encode()
                    lines = f"content-type: application/json\r\ncontent-length: {len(told)}"
                    writer.write(f"HTTP/1.1 200 OK\r\n{lines}\r\n\r\n".encode() + told)
                    continue
                asked = json.loads(body)
                num_chunks = asked["max_tokens"]
                client, call = asked["user"].split("-")
                lines = "content-type: text/event-stream\r\ntransfer-encoding: chunked"
                writer.write(f"HTTP/1.1 200 OK\r\n{lines}\r\n\r\n".encode())
                for index in range(num_chunks):
                    if index:
                        await asyncio.sleep(interval_s)
                    data = chunk(client, int(call), index, num_chunks)
                    writer.write(b"%x\r\n%s\r\n" % (len(data), data))
                    await writer.drain()
                writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(DONE), DONE))
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def serve_bare(upstream: str) -> None:
    """A proxy that does nothing but pass bytes, made of what the gateway is made of; prints its port."""
    client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))

    async def forward(request: Request) -> StreamingResponse:
        content = await request.body()
        headers = {"content-type": "application/json"}
        sent = client.build_request("POST", upstream + request.url.path, content=content, headers=headers)
        answer = await client.send(sent, stream=True)

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in answer.aiter_raw():
                    yield piece
            finally:
                await answer.aclose()

        return StreamingResponse(
            pieces(), answer.status_code, {"content-type": answer.headers["content-type"]}
        )

    app = Starlette(routes=[Route("/v1/chat/completions", forward, methods=["POST"])])
    with listen("127.0.0.1", 0) as bound:
        print(bound.getsockname()[1], flush=True)
        uvicorn.Server(uvicorn.Config(app, log_level="error", http="h11")).run(sockets=[bound])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("role", choices=("upstream", "bare"))
    parser.add_argument("--interval", type=float, default=0.1, help="seconds between chunks")
    parser.add_argument("--upstream", default="", help="of the bare proxy")
    options = parser.parse_args()
    if options.role == "upstream":
        asyncio.run(serve_upstream(options.interval))
    else:
        serve_bare(options.upstream)


if __name__ == "__main__":
    main()
